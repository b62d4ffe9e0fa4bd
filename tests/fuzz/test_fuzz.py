"""A few random cases of every property, the same in every run; `make fuzz` tries thousands. Below
them, what was found, each case with what it did before."""

import json
import warnings

import hypothesis
import numpy as np
import pytest
from cases import PROPERTIES, building, estimators, solving
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
from refusals import check_refusal

from dladmm import DLADMMClassifier, DLADMMRegressor, Network
from dladmm.network import Conv2D, Dense, MaxPool, Residual
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


SENTENCE = ValueError("max_iter=-1 is not valid; expected an integer >= 1")


def test_a_refusal_that_names_something_else_is_seen():
    check_refusal(SENTENCE, {"max_iter": -1, "tol": 0.1})
    for given, data in (
        ({"max_iter": 1, "tol": -1}, set()),  # names what is as it should be
        ({"tol": 0.1}, set()),  # names what was not given
        ({"max_iter": 1}, {"y", "targets"}),
    ):
        with pytest.raises(AssertionError, match="names none of"):
            check_refusal(SENTENCE, given, data)
    with pytest.raises(AssertionError):
        check_refusal(ValueError("tol is bad\ntol"), {"tol": -1})


def test_a_network_of_nothing_is_refused():
    """Found: TypeError: 'NoneType' object is not iterable."""
    assert building((None, ["relu", "log_loss", "none"])) == "refused"


def test_a_strength_that_is_no_number_is_refused():
    """Found: TypeError: '<=' not supported between instances of 'int' and 'NoneType'."""
    x = np.arange(10.0).reshape(5, 2)
    with pytest.raises(ValueError, match="alpha=None is not valid"):
        DLADMMRegressor(alpha=None).fit(x, x[:, 0])
    assert estimators((DLADMMRegressor, {"alpha": None}, x, x[:, 0], None)) == "refused"


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
        assert estimators((*case, np.full(5, 1e-201))) in ("diverged", "noise", "tol", "refused")


def test_tiny_weights_over_mini_batches_are_a_fit_or_a_refusal():
    """Found: ZeroDivisionError: float division by zero."""
    x = np.arange(10.0).reshape(5, 2)
    case = (DLADMMRegressor, {"hidden_layer_sizes": (), "batch_size": 1, "max_iter": 4}, x, x[:, 0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for size in (9e-201, 1.0):
            ended = estimators((*case, np.full(5, size)))
            assert ended in ("diverged", "max_iter", "tol", "refused")


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
    metadata, tensors = model_content("regressor")
    kept = {k: v for k, v in metadata.items() if k not in ("format", "format_version", "sha256")}
    assert model_files(("regressor", "content", (kept, tensors))) == "loaded"  # the control
    other = changed(kept, ("layers", 0, "inputs"), [])
    assert model_files(("regressor", "content", (other, tensors))) == "refused"
    for name in kept:  # found: KeyError: 'preprocessing'
        less = {k: v for k, v in kept.items() if k != name}
        expected = "loaded" if name == "library_version" else "refused"
        assert model_files(("regressor", "content", (less, tensors))) == expected, name


@pytest.mark.parametrize("layers", [None, True, 0, np.inf, {}])
def test_layers_that_are_no_list_are_refused(layers):
    """Found: TypeError: 'NoneType' object is not iterable."""
    with pytest.raises(ValueError, match=r"^layers=\S+ is not valid; expected a list"):
        Network((3,), layers)
    with pytest.raises(ValueError, match=r"^Residual\(body=\S+\) is not valid; expected a list"):
        Residual(layers)
    assert len(Network((3,), (Dense(n) for n in (2, 1))).layers) == 2  # the control


def test_iterations_to_wait_for_are_refused_by_the_name_of_the_parameter():
    """Found: patience=None is not valid, which nobody had given."""
    with pytest.raises(ValueError, match=r"^n_iter_no_change=None is not valid"):
        DLADMMRegressor(n_iter_no_change=None).fit(np.eye(3), np.arange(3.0))


def test_no_samples_of_a_network_are_refused_as_such():
    """Found: Found array with dim 3, while dim <= 2 is required, of samples that have three."""
    model = DLADMMRegressor(network=Network((6, 2), [Dense(1)]))
    with pytest.raises(ValueError, match="0 sample"):
        model.fit(np.zeros((0, 6, 2)), np.zeros(0))


@pytest.mark.parametrize("unit", [1e-42, 1.0, 1e42])
def test_targets_out_of_float32s_range_are_learned_in_it(unit):
    """Found: predictions of inf and NaN, or of nothing but 0."""
    x = np.linspace(-1, 1, 20)[:, None] ** [[1, 2]]
    y = unit * (x[:, 0] + 2)
    model = DLADMMRegressor((), dtype="float32", tol=None, max_iter=20, engine="numpy")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert model.fit(x, y).score(x, y) == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("columns", [1, 2])
def test_inputs_whose_squares_vanish_are_a_fit(columns):
    """Found: x has 10 NaN or infinite entries, where it had none: it was divided by 0."""
    x = np.linspace(-1, 1, 10)
    X = np.stack([1e-300 * x] * columns, axis=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert estimators((DLADMMRegressor, {"max_iter": 4}, X, x, None)) != "refused"


def test_an_activation_that_does_not_fit_is_refused_with_what_asks_for_it():
    """Found: which this method needs, and which of the arguments that was stayed unsaid."""
    network = Network((4, 4, 1), [Conv2D(2, 3), "tanh", MaxPool(2), Dense(1)])
    for given in ({"targets": "closed"}, {"method": "dladmm"}):
        ((name, value),) = given.items()
        with pytest.raises(ValueError, match=rf"after tanh, .* {name}='{value}' needs") as refused:
            DLADMMRegressor(network=network, **given).fit(np.zeros((3, 16)), np.arange(3.0))
        assert " at 0x" not in str(refused.value)


@pytest.mark.parametrize("classes", [np.array(1), np.arange(3), np.zeros((2, 1))])
def test_a_model_whose_classes_are_not_those_of_its_outputs_is_refused(classes):
    """Found: IndexError: too many indices for array, in its first prediction."""
    metadata, tensors = model_content("classifier")
    kept = {k: v for k, v in metadata.items() if k not in ("format", "format_version", "sha256")}
    assert model_files(("classifier", "content", (kept, tensors))) == "loaded"  # the control
    stored = {"$array": classes.tolist(), "dtype": "<i8"}
    other = changed(kept, ("fitted", "classes_"), stored)
    assert model_files(("classifier", "content", (other, tensors))) == "refused"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_checkpoint_whose_records_are_no_run_s_is_refused():
    """Found: TypeError: LoopState.__init__() got an unexpected keyword argument."""
    text = json.loads(json.loads(record_file(kept_run()).read_text())["text"])
    for path, new in (
        (("plain", "rows"), "a"),
        (("plain", "rows"), [{}] * 4),  # found: KeyError: 'seconds'
        (("plain", "more"), 1),
        (("plain", "iteration"), 3),
    ):
        assert checkpoint_records(signed(changed(text, path, new))) == "refused"
    assert checkpoint_records(signed(text)) == "went on"  # the control
    newer = changed(text, ("identity", "format"), 99)
    assert checkpoint_records(signed(newer)) == "refused"


@pytest.mark.parametrize("weight", [1e-160, 2.7e-201, 1.0])
def test_a_step_under_tiny_weights_has_a_length(weight):
    """Found: c_k was NaN, as 0 times infinity."""
    case = ((1, 1), ("elu", "binary_log_loss"), "none")
    how = {"method": "dladmm", "nu": 1.0, "max_iter": 4, "engine": "numpy"}
    x, y = np.full((1, 1), 0.12573022), np.ones((1, 1))
    assert solving((*case, how, x, y, np.array([weight]))) == "max_iter"


def test_a_constant_column_as_large_as_numbers_get_is_trained_on():
    """Found: x has 5 NaN or infinite entries, which were finite where X was given."""
    x = np.column_stack([np.full(5, 3e38), [-0.13, 0.1, 0.36, 0.95, -1.27]])
    how = {"dtype": "float32", "hidden_layer_sizes": (), "max_iter": 1, "engine": "numpy"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        case = (DLADMMClassifier, how, x, np.array([1, 1, 1, 0, 0]), None)
        assert estimators(case) == "max_iter"


def test_inputs_whose_squares_overflow_are_refused():
    """Found: predictions of infinity."""
    x = np.array([[1.7e308], [-0.13], [0.64], [0.1], [-0.54]])
    with pytest.raises(ValueError, match=r"X has values up to 1.7e\+308, whose squares"):
        DLADMMRegressor((), loss="huber", init="paper").fit(x, np.arange(5.0))
