"""An estimator in a notebook: scikit-learn's page of parameters, and the network below."""

import xml.etree.ElementTree as ElementTree

import pytest

from dladmm import DLADMMClassifier
from dladmm.report.network import network_svg


def test_a_drawing_is_whole_and_says_what_it_shows():
    svg = ElementTree.fromstring(network_svg([64, 100, 10], ["<tanh>"], "log_loss"))
    assert svg.attrib["aria-label"] == "Network 64-100-10, <tanh>, log_loss"
    texts = [one.text for one in svg.iter("text")]
    assert texts == ["64", "100", "<tanh>", "10", "log_loss"]
    heights = [float(one.attrib["height"]) for one in svg.iter("rect")]
    assert heights[1] > heights[0] > heights[2]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_fitted_estimator_shows_its_network(rng):
    model = DLADMMClassifier((5,), max_iter=2, random_state=0)
    assert "<svg role" not in model._repr_html_()
    X = rng.normal(size=(30, 3))
    model.fit(X, (X[:, 0] > 0).astype(int))
    assert 'aria-label="Network 3-5-2, relu, log_loss"' in model._repr_html_()
    assert "Network 3-5-2" in model._repr_mimebundle_()["text/html"]
