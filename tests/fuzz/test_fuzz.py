"""A few random cases of every property, the same in every run; `make fuzz` tries thousands. Below
them, what was found, each case with what it did before."""

import json
import warnings

import hypothesis
import numpy as np
import pytest
from cases import PROPERTIES, building, estimators
from file_cases import (
    changed,
    checkpoint_records,
    kept_run,
    model_content,
    model_files,
    record_file,
    signed,
    tables,
)

from dladmm import DLADMMClassifier, DLADMMRegressor
from dladmm.terms.activations import activations

QUICK = {"checkpoints": 5}
EACH = 40


@pytest.mark.parametrize("name", list(PROPERTIES))
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_few_random_cases(name):
    strategy, check = PROPERTIES[name]

    @hypothesis.settings(
        max_examples=QUICK.get(name, EACH),
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(strategy)
    def attempt(case):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            check(case)

    attempt()


def test_a_network_of_nothing_is_refused():
    """Found: TypeError: 'NoneType' object is not iterable."""
    assert building((None, ["relu", "log_loss", "none"])) is None


def test_a_strength_that_is_no_number_is_refused():
    """Found: TypeError: '<=' not supported between instances of 'int' and 'NoneType'."""
    x = np.arange(10.0).reshape(5, 2)
    with pytest.raises(ValueError, match="alpha=None is not valid"):
        DLADMMRegressor(alpha=None).fit(x, x[:, 0])
    assert estimators((DLADMMRegressor, {"alpha": None}, x, x[:, 0], None)) is None


@pytest.mark.parametrize("engine", ["numpy", "jax"])
def test_a_run_that_diverges_asks_a_table_for_no_number(engine):
    """Found by a drill: IndexError: index -2147483648 is out of bounds for axis 0."""
    import jax.numpy as jnp

    place = np.asarray if engine == "numpy" else jnp.asarray
    m, a = (place(np.array([[np.nan, 1.0, np.inf]])) for _ in range(2))
    with np.errstate(all="ignore"):
        z = np.asarray(activations.get("tanh").argmin_z(m, a))
    assert z[0, 1] == pytest.approx(1.0, abs=0.5)  # its neighbours change nothing


def test_too_few_rows_to_hold_any_out_are_refused_by_the_name_of_the_parameter():
    """Found: scikit-learn's own words, which name parameters that the caller has not given."""
    with pytest.raises(
        ValueError, match=r"early_stopping cannot hold out validation_fraction=0\.1"
    ):
        DLADMMRegressor(early_stopping=True).fit([[1.0]], [1.0])


def test_a_share_that_is_no_number_is_refused():
    """Found: TypeError: '<' not supported between instances of 'int' and 'NoneType'."""
    with pytest.raises(ValueError, match="validation_fraction=None is not valid"):
        DLADMMRegressor(early_stopping=True, validation_fraction=None).fit([[1.0], [2.0]], [1, 2])


def test_what_a_parser_says_is_one_sentence():
    """Found: pandas ends its own with a line of its own."""
    assert tables((".csv", b"a,b\n1,2\n1,2,3\n")) == "refused"


def test_targets_whose_squares_overflow_are_refused():
    """Found: predictions of -inf and NaN."""
    x = np.arange(10.0).reshape(5, 2)
    with pytest.raises(ValueError, match=r"y has values up to 8e\+155"):
        DLADMMRegressor().fit(x, 1e155 * x[:, 0])


def test_weights_that_add_up_to_almost_nothing_are_a_fit_or_a_refusal():
    """Found: LinAlgError: Eigenvalues did not converge."""
    x = np.arange(10.0).reshape(5, 2)
    case = (DLADMMClassifier, {"hidden_layer_sizes": ()}, x, np.array([2, 1, 1, 0, 0]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert estimators((*case, np.full(5, 1e-201))) in ("diverged", "noise", "tol", None)


def test_tiny_weights_over_mini_batches_are_a_fit_or_a_refusal():
    """Found: ZeroDivisionError: float division by zero."""
    x = np.arange(10.0).reshape(5, 2)
    case = (DLADMMRegressor, {"hidden_layer_sizes": (), "batch_size": 1, "max_iter": 4}, x, x[:, 0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for size in (9e-201, 1.0):
            assert estimators((*case, np.full(5, size))) in ("diverged", "max_iter", "tol", None)


@pytest.mark.parametrize("alpha", [-1, np.inf, np.nan])
def test_a_strength_out_of_range_is_refused_by_its_name(alpha):
    """Found: strength=-1 is not valid, which nobody had given."""
    with pytest.raises(ValueError, match=r"alpha=\S+ is not valid; expected 'evid"):
        DLADMMRegressor(alpha=alpha).fit([[1.0], [2.0]], [1.0, 2.0])


@pytest.mark.parametrize("early_stopping", [False, True])
def test_a_seed_out_of_range_is_refused_by_its_name(early_stopping):
    """Found: Seed must be between 0 and 2**32 - 1, in NumPy's words."""
    model = DLADMMRegressor(random_state=10**30, early_stopping=early_stopping)
    with pytest.raises(ValueError, match=r"random_state=1\d+ is not valid"):
        model.fit(np.eye(20), np.arange(20.0))


def test_a_model_whose_layers_are_not_those_of_its_weights_is_refused():
    """Found: it loaded, and failed in its first prediction."""
    metadata, tensors = model_content()
    kept = {k: v for k, v in metadata.items() if k not in ("format", "format_version", "sha256")}
    assert model_files(("content", (kept, tensors))) == "loaded"  # the control
    other = changed(kept, ("layers", 0, "inputs"), [])
    assert model_files(("content", (other, tensors))) == "refused"
    for name in kept:  # found: KeyError: 'preprocessing'
        less = {k: v for k, v in kept.items() if k != name}
        expected = "loaded" if name == "library_version" else "refused"
        assert model_files(("content", (less, tensors))) == expected, name


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_checkpoint_whose_records_are_no_run_s_is_refused():
    """Found: TypeError: LoopState.__init__() got an unexpected keyword argument."""
    text = json.loads(json.loads(record_file(kept_run()).read_text())["text"])
    for path, new in (
        (("plain", "rows"), "a"),
        (("plain", "more"), 1),
        (("plain", "iteration"), 3),
    ):
        assert checkpoint_records(signed(changed(text, path, new))) == "refused"
    assert checkpoint_records(signed(text)) == "went on"  # the control
    newer = changed(text, ("identity", "format"), 99)
    assert checkpoint_records(signed(newer)) == "refused"
