"""A killed run goes on to the same bits; damage is skipped, another run refused, a full disk borne.

Kills are SIGKILL at seeded moments: some after a number of iterations, some while a checkpoint is
being written, which is seen by orbax's temporary folder being there when the process is gone.
"""

import fcntl
import gc
import shutil
from contextlib import suppress
from dataclasses import replace

import jax
import numpy as np
import pytest
from runs import problem_and_rows
from sklearn.base import clone

from dladmm import Checkpoints, DLADMMClassifier, Options, solve
from dladmm.core.snapshot import Snapshot, differences, rows_digest

KILLS = 20
# Of what orbax leaves behind when a file is missing: callbacks of a loop it has closed.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(autouse=True)
def what_orbax_left_behind():
    """Is collected here, where it is expected, and not in another test."""
    yield
    gc.collect()


def being_written(folder):
    return any("tmp" in path.name for path in folder.iterdir()) if folder.exists() else False


def bits(told):
    return told["history"], told["network"]


def finished(server, **settings):
    """What a run ended with that nobody killed."""
    return server.call("kept_runs", "run", **settings)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["dladmm", "restored", "batches"])
def test_a_killed_run_goes_on_to_the_same_bits(server, tmp_path, method):
    random = np.random.default_rng(len(method))
    shared = {"method": method, "slow": 0.02}
    undisturbed = finished(server, folder=str(tmp_path / "whole"), **shared)
    # Restored sweeps carry most of the kills; the other methods share the code that keeps them.
    kills = KILLS - 8 if method == "restored" else 4
    done = inside = 0
    for attempt in range(3 * kills):
        folder = tmp_path / f"run-{attempt}"
        in_a_write = done % 2 == 0  # then also in the very first one
        wanted = 3 * int(random.integers(0 if in_a_write else 1, 4))

        def moment(folder=folder, in_a_write=in_a_write, wanted=wanted):
            return last_kept(folder) >= wanted and (not in_a_write or being_written(folder))

        run = server.start("kept_runs", "run", folder=str(folder), **shared)
        if not server.kill(run, moment):
            continue  # on a busy machine a run may end before it is killed
        done += 1
        inside += being_written(folder)
        resumed = finished(server, folder=str(folder), **shared)
        assert resumed["resumed_from"] >= wanted
        assert bits(resumed) == bits(undisturbed)
        if done == kills:
            break
    assert done == kills
    assert inside >= kills // 3


def kept_in(folder):
    return sorted(int(p.name) for p in folder.glob("*") if p.name.isdigit())


def last_kept(folder):
    return max(kept_in(folder), default=0)


def options(**more):
    return Options(**{"method": "restored", "max_iter": 9, "tol": None, "dtype": "float64"} | more)


def train(folder, *, rows=slice(None), resume=True, hidden=None, every=2, **more):
    problem, x, y, weights = problem_and_rows(200)
    if hidden:
        problem = type(problem).dense((6, hidden, 3), "tanh", "log_loss", "l2")
    asked = replace(options(), **more)
    checkpoints = None if folder is None else Checkpoints(folder, every=every, resume=resume)
    return solve(
        problem,
        x[rows],
        y[rows],
        sample_weight=weights[rows],
        options=asked,
        checkpoints=checkpoints,
    )


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """The checkpoints of a run of nine iterations: 4, 6 and 8."""
    folder = tmp_path_factory.mktemp("kept") / "run"
    with jax.enable_x64(True):
        train(folder)
    return folder


def test_the_last_few_are_kept_and_keeping_changes_nothing(kept):
    assert kept_in(kept) == [4, 6, 8]
    assert train(None).history["train_loss"] == train(kept).history["train_loss"]


def test_a_longer_run_goes_on_from_a_shorter_one(kept, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(kept, folder)
    longer = train(folder, max_iter=14)
    assert longer.resumed_from == 8
    assert longer.history["train_loss"] == train(None, max_iter=14).history["train_loss"]


def files_of(step):
    return [path for path in sorted(step.rglob("*")) if path.is_file()]


def flipped(file):
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def values(step):
    """Where the arrays themselves are."""
    (file,) = files_of(step / "arrays" / "d")
    return file


@pytest.mark.parametrize(
    "damage",
    [
        lambda step: flipped(values(step)),
        lambda step: values(step).write_bytes(values(step).read_bytes()[:-10]),
        lambda step: values(step).unlink(),
        lambda step: [flipped(file) for file in files_of(step / "run")],
        lambda step: shutil.rmtree(step / "arrays"),
    ],
    ids=["a bit", "cut", "a file gone", "the records", "the arrays gone"],
)
def test_a_damaged_checkpoint_is_skipped_with_a_warning(kept, tmp_path, damage):
    folder = tmp_path / "run"
    shutil.copytree(kept, folder)
    damage(folder / "8")
    with pytest.warns(UserWarning, match="iteration 8 in .* is damaged and was skipped"):
        resumed = train(folder)
    assert resumed.resumed_from == 6
    assert resumed.history["train_loss"] == train(None).history["train_loss"]
    assert (folder / "damaged-8").exists()


@pytest.mark.parametrize(
    ("other", "named"),
    [
        ({"hidden": 5}, "layer 1 {'layer': 'dense', 'inputs': [6], 'outputs': 8} instead of"),
        ({"rows": slice(1, None)}, "samples 200 instead of 199"),
        ({"rows": slice(None, None, -1)}, "other inputs, other targets, other sample weights"),
        ({"method": "dladmm"}, "method 'restored' instead of 'dladmm'"),
        ({"seed": 3}, "seed 0 instead of 3"),
    ],
)
def test_the_checkpoint_of_another_run_is_refused_by_what_differs(kept, other, named):
    with pytest.raises(ValueError, match="is of another run: it has") as refused:
        train(kept, **other)
    assert named in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_run_with_other_rows_held_out_is_another_run(tmp_path):
    problem, x, y, _ = problem_and_rows(200)
    keeping = Checkpoints(tmp_path / "run", every=2, resume=True)

    def run(held_out):
        return solve(
            problem, x, y, validation=held_out, options=options(max_iter=5), checkpoints=keeping
        )

    run((x[:50], y[:50], None))
    weighted = (x[:50], y[:50], np.arange(1.0, 51.0))
    for other in (None, (x[50:100], y[50:100], None), weighted):
        with pytest.raises(ValueError, match="is of another run: it has other held-out rows"):
            run(other)
    assert run((x[:50], y[:50], None)).resumed_from == 4


def test_a_checkpoint_that_knows_more_than_the_run_is_another_run_s():
    assert differences({"samples": 3, "rows of each process": [1, 2]}, {"samples": 3}) == (
        "rows of each process [1, 2] instead of None"
    )


def test_a_folder_with_checkpoints_is_refused_unless_the_run_goes_on(kept):
    with pytest.raises(ValueError, match="holds the checkpoint of iteration 8; expected an empty"):
        train(kept, resume=False)


@pytest.mark.slow
def test_a_disk_that_takes_no_more_costs_the_checkpoints_and_not_the_run(server, tmp_path):
    """The kernel refuses to write beyond a size, as it does where the disk is full."""
    shared = {"method": "dladmm", "every": 6}
    free, full = (
        finished(server, folder=str(tmp_path / name), largest_file=limit, **shared)
        for name, limit in (("free", None), ("full", 2000))
    )
    assert (free["said"], len(full["said"])) == ([], 2)
    assert all("could not be written" in text for text in full["said"])
    assert (kept_in(tmp_path / "free"), kept_in(tmp_path / "full")) == ([6, 12], [])
    assert (full["history"], full["network"]) == (free["history"], free["network"])


def test_a_folder_that_is_gone_costs_the_checkpoints_and_not_the_run(tmp_path):
    problem, x, y, weights = problem_and_rows(200)
    folder, told = tmp_path / "run", []

    def remove(progress):
        if progress.iteration == 3:
            while not folder.is_file():  # a checkpoint is being written into it
                shutil.rmtree(folder, ignore_errors=True)
                with suppress(IsADirectoryError):
                    folder.write_text("a file")

    keeping = Checkpoints(folder, every=2, warn=told.append)
    ended = solve(
        problem,
        x,
        y,
        sample_weight=weights,
        options=options(),
        checkpoints=keeping,
        callback=remove,
    )
    assert ended.history["train_loss"] == train(None).history["train_loss"]
    assert told
    assert all("could not be written" in text for text in told)


def test_a_folder_belongs_to_one_run_at_a_time(kept):
    with (kept / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(ValueError, match="is in use by another run"):
            train(kept)
    assert train(kept).resumed_from == 8


def test_no_readable_checkpoint_at_all_is_refused(kept, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(kept, folder)
    for step in kept_in(folder):
        for file in files_of(folder / str(step) / "run"):
            flipped(file)
    for _ in range(2):  # nothing is moved away, or the next try would begin anew without a word
        with pytest.raises(ValueError, match="has no checkpoint that can be read"):
            train(folder)
    assert kept_in(folder) == kept_in(kept)


@pytest.mark.parametrize("length", [11, 12])
def test_the_end_of_a_shorter_run_does_not_change_a_longer_one(tmp_path, length):
    """The real loss of a last iteration is measured, and adaptive penalties look at it."""
    adaptive = {"method": "dladmm", "rho": 1.5, "nu_schedule": "adaptive", "evaluate_every": 4}
    train(tmp_path / "run", max_iter=length, every=1, **adaptive)
    longer = train(tmp_path / "run", max_iter=20, every=1, **adaptive)
    alone = train(None, max_iter=20, **adaptive)
    assert longer.resumed_from >= 10
    for name in ("nu", "lagrangian", "train_loss"):
        np.testing.assert_array_equal(longer.history[name], alone.history[name])
    assert alone.history["nu"][-1] > alone.history["nu"][0]


def estimator(**more):
    return DLADMMClassifier((8,), random_state=0, dtype="float64", tol=None, max_iter=12, **more)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_what_an_estimator_watches_goes_on_too(tmp_path):
    _, x, y, _ = problem_and_rows(300)
    labels = y.argmax(1)
    keeping = Checkpoints(tmp_path / "run", every=5, resume=True)
    watching = {"early_stopping": True, "n_iter_no_change": 100}
    alone = estimator(**watching).fit(x, labels)
    estimator(**watching, checkpoints=keeping).set_params(max_iter=7).fit(x, labels)
    resumed = clone(estimator(**watching, checkpoints=keeping)).fit(x, labels)
    assert resumed.resumed_from_ == 5
    assert resumed.validation_scores_ == alone.validation_scores_
    for one, other in zip(resumed.coefs_, alone.coefs_, strict=True):
        np.testing.assert_array_equal(one, other)
    resumed.save(tmp_path / "model")
    assert DLADMMClassifier.load(tmp_path / "model").checkpoints is None


def test_an_estimator_without_a_seed_cannot_go_on(tmp_path):
    _, x, y, _ = problem_and_rows(50)
    with pytest.raises(ValueError, match="random_state=None does not fit checkpoints"):
        DLADMMClassifier(checkpoints=tmp_path / "run").fit(x, y.argmax(1))


def test_minutes_are_looked_at(tmp_path):
    problem, x, y, _ = problem_and_rows(100)
    never, always = (Checkpoints(tmp_path / f"{m}", minutes=m) for m in (1e6, 0))
    for keeping in (never, always):
        solve(problem, x, y, options=options(), checkpoints=keeping)
    assert kept_in(tmp_path / "1000000.0") == []
    assert kept_in(tmp_path / "0") == [7, 8, 9]


def test_the_digest_sees_every_bit_and_no_padding():
    rows = np.arange(12.0).reshape(6, 2)
    shot = Snapshot((jax.numpy.asarray(rows),), (), {}, 6)
    padded = Snapshot((jax.numpy.asarray(np.pad(rows, ((0, 3), (0, 0)))),), (), {}, 6)
    assert shot.digest() == padded.digest()
    changed = rows.copy()
    changed[5, 1] = np.nextafter(11.0, 12.0)
    assert Snapshot((jax.numpy.asarray(changed),), (), {}, 6).digest() != shot.digest()
    assert rows_digest(rows) != rows_digest(rows[::-1])


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"every": 0}, "every=0 is not valid"),
        ({"keep": 0}, "keep=0 is not valid"),
        ({"minutes": -1}, "minutes=-1 is not valid"),
    ],
)
def test_settings_out_of_range_are_refused(wrong, words):
    with pytest.raises(ValueError, match=words):
        Checkpoints("somewhere", **wrong)
