"""The reproduction on digits in place of the images: records, their reuse, and the files."""

import json
from dataclasses import replace

import pytest
from command_line import run
from evaluation_records import SCALE, on_digits

from dladmm.paper import records
from dladmm.paper import reproduce as making
from dladmm.paper import settings as paper
from dladmm.paper.claims import WORDS
from dladmm.paper.present import present

pytestmark = [pytest.mark.float32, pytest.mark.slow]
quiet = lambda label, share: None  # noqa: E731


@pytest.fixture
def digits(monkeypatch):
    on_digits(monkeypatch)


def made(folder, piece):
    folder.mkdir(exist_ok=True)
    for unit in making.missing_units(folder, piece, SCALE, None):
        records.make(folder, piece, SCALE, unit, quiet)
    return records.read_record(folder, piece)


def test_the_convergence_figures_have_a_value_per_iteration(digits, tmp_path):
    record = made(tmp_path, "fig3")
    assert set(record["runs"]) == {f"{d} {v}" for d in paper.DATA for v in paper.VARIANTS}
    for run_ in record["runs"].values():
        history = run_["history"]
        assert len(history["lagrangian"]) == len(history["residual"]) == SCALE.iterations
        assert set(history["rho"]) == {1.0}
        assert run_["certificate"]["n_iter"] == SCALE.iterations


def test_accuracies_of_every_method_seed_and_rate(digits, tmp_path):
    runs = made(tmp_path, "fig5")["runs"]
    assert runs["sgd paper"]["rate"] == 1e-6
    # The second rate explodes: it is recorded as it is and never chosen.
    assert runs["sgd grid"]["rates"][1]["train_loss"] is None
    assert runs["sgd best"]["rate"] == 0.1
    for name, one in runs.items():
        if not name.endswith("grid"):
            assert [curve["seed"] for curve in one["curves"]] == [0, 1]
            assert {len(curve["test_accuracy"]) for curve in one["curves"]} == {SCALE.iterations}
    first = [curve["train_accuracy"] for curve in runs["adam best"]["curves"]]
    assert first[0] != first[1]  # seeds differ
    assert first[0][-1] > first[0][0]


def test_a_run_with_the_settings_of_another_is_taken_over(digits, tmp_path, monkeypatch):
    alone = made(tmp_path / "alone", "fig4")["runs"]["mnist authors"]
    made(tmp_path, "fig5")
    whole = made(tmp_path, "fig4")["runs"]["mnist authors"]
    clocks = ("wall_seconds", "history")
    assert {k: v for k, v in whole.items() if k not in clocks} == {
        k: v for k, v in alone.items() if k not in clocks
    }
    for name in ("lagrangian", "residual", "rho"):  # the same numbers, had it been made
        assert whole["history"][name] == alone["history"][name]
    unit = next(u for u in making.units("fig4", SCALE, None) if u.name == "mnist authors")
    never = replace(unit, run=lambda record, tell: pytest.fail("it was made again"))
    records.make(tmp_path, "fig4", SCALE, never, quiet)
    with pytest.raises(pytest.fail.Exception):
        records.make(tmp_path / "alone", "fig4", SCALE, never, quiet)


def test_a_best_rate_that_is_the_papers_is_not_run_twice(digits, tmp_path, monkeypatch):
    monkeypatch.setitem(paper.GRIDS, "adam", (0.02,))
    monkeypatch.setitem(paper.RATES, "adam", 0.02)
    made_curves, calls = making.gradient_curves, []

    def counted(setup, name, pairs, *rest):
        calls.append((name, len(pairs)))
        return made_curves(setup, name, pairs, *rest)

    monkeypatch.setattr(making, "gradient_curves", counted)
    runs = made(tmp_path, "fig5")["runs"]
    assert calls.count(("adam", SCALE.seeds)) == 1
    # Of SGD the grid's two, the paper's, the paper's as a sum's, and the best.
    assert calls.count(("sgd", SCALE.seeds)) == 4
    assert runs["adam best"] == runs["adam paper"]
    assert runs["sgd best"]["rate"] != runs["sgd paper"]["rate"]
    assert runs["sgd best"]["curves"] != runs["sgd paper"]["curves"]


def test_an_interrupted_run_is_not_recorded(digits, tmp_path):
    def interrupting(label, share):
        raise KeyboardInterrupt

    for piece in ("fig3", "fig5"):
        unit = making.units(piece, SCALE, None)[0]
        with pytest.raises(KeyboardInterrupt):
            records.make(tmp_path, piece, SCALE, unit, interrupting)
        assert records.read_record(tmp_path, piece) is None


def test_what_a_run_knows_of_itself_is_recorded(digits, tmp_path):
    unit = next(u for u in making.units("fig5", SCALE, None) if u.name == "dladmm text")
    records.make(tmp_path, "fig5", SCALE, unit, quiet)
    run_ = records.read_record(tmp_path, "fig5")["runs"]["dladmm text"]
    assert run_["machine"]["optax"]
    assert run_["wall_seconds"] > 0
    for curve in run_["curves"]:
        assert curve["status"] == "max_iter"
        assert len(curve["test_loss"]) == len(curve["history"]["theta"]) == SCALE.iterations
        assert len(curve["weights_moved"]) == 3
        assert min(curve["weights_moved"]) > 0


def test_all_methods_but_the_authors_start_from_the_same_weights(digits):
    images = making.Images("mnist", SCALE, None)
    starts = {
        name: images.started(options).weights(0).W[0]
        for name, options in {
            "admm": paper.ADMM, "restored": paper.RESTORED, **paper.VARIANTS
        }.items()
    }  # fmt: skip
    ours = images.setup().weights(0).W[0]
    assert {name for name, W in starts.items() if (ours == W).all()} == {
        "admm", "restored", "text", "matrix"
    }  # fmt: skip


def test_times_of_every_rho(digits, tmp_path):
    record = made(tmp_path, "table2")
    assert set(record["runs"]) == {f"{d} {n}" for d in paper.DATA for n in SCALE.neurons}
    for one in record["runs"].values():
        assert [row["rho"] for row in one["rows"]] == list(paper.RHOS)
        for row in one["rows"]:
            assert len(row["times"]) == 2 * SCALE.timed_iterations
            assert min(row["times"]) <= row["seconds"] <= max(row["times"])


def test_what_another_process_recorded_meanwhile_stays(digits, tmp_path):
    first, second = making.units("table2", SCALE, None)[:2]

    def meanwhile(record, tell):
        records.make(tmp_path, "table2", SCALE, second, quiet)
        return {"rows": []}

    records.make(tmp_path, "table2", SCALE, replace(first, run=meanwhile), quiet)
    kept = records.read_record(tmp_path, "table2")["runs"]
    assert set(kept) == {first.name, second.name}


def test_where_every_rate_explodes_the_smallest_is_taken():
    rates = [{"rate": rate, "train_accuracy": 0.1, "train_loss": None} for rate in (3.0, 1.0)]
    assert making.best_rate({"runs": {"sgd grid": {"rates": rates}}}, "sgd") == 1.0


def test_the_tables_share_the_column_of_all_samples_and_neurons(digits, tmp_path):
    neurons, sizes = (made(tmp_path, piece)["runs"] for piece in ("table2", "table3"))
    turned = [made(tmp_path / "turned", piece)["runs"] for piece in ("table3", "table2")]
    for data in paper.DATA:
        assert turned[0][f"{data} 100"] == turned[1][f"{data} 6"]
        assert sizes[f"{data} 100"] == neurons[f"{data} 6"]
        assert sizes[f"{data} 50"]["rows"] != neurons[f"{data} 3"]["rows"]
        assert (sizes[f"{data} 50"]["samples"], sizes[f"{data} 50"]["neurons"]) == (50, 6)


def test_a_finished_run_is_not_made_again_and_another_setting_is_refused(digits, tmp_path):
    units = making.missing_units(tmp_path, "fig4", SCALE, None)
    records.make(tmp_path, "fig4", SCALE, units[0], quiet)
    assert [u.name for u in making.missing_units(tmp_path, "fig4", SCALE, None)] == [
        u.name for u in units[1:]
    ]
    with pytest.raises(ValueError, match=r"another setting \(tiny\); expected a folder of its own"):
        making.missing_units(tmp_path, "fig4", replace(SCALE, name="other"), None)
    (tmp_path / "fig4.json").write_text("{}")
    with pytest.raises(ValueError, match="not a record of this program"):
        making.missing_units(tmp_path, "fig4", SCALE, None)


def test_a_run_with_another_setting_is_made_again_and_taken_over_by_none(digits, tmp_path):
    made(tmp_path, "fig5")
    file = tmp_path / "fig5.json"
    record = json.loads(file.read_text())
    record["runs"]["dladmm authors"]["options"]["zl_solver"] = "newton"
    record["runs"]["adam paper"]["rate"] *= 2
    file.write_text(json.dumps(record))
    again = [u.name for u in making.missing_units(tmp_path, "fig5", SCALE, None)]
    assert again == ["dladmm authors", "adam paper"]
    kept = made(tmp_path, "fig4")["runs"]["mnist authors"]
    assert kept["options"]["zl_solver"] == "authors"


def test_a_record_that_names_no_step_rule_is_one_of_the_vector_rule(digits, tmp_path):
    """Those of version 0.1, when it was the default; the matrix rule does not stand for it."""
    units = {u.name: u for u in making.missing_units(tmp_path, "fig3", SCALE, None)}
    text = units["mnist text"]
    assert text.setting["options"]["step_rule"] == "closed-form"
    records.make(tmp_path, "fig3", SCALE, text, quiet)
    file = tmp_path / "fig3.json"
    record = json.loads(file.read_text())
    del record["runs"]["mnist text"]["options"]["step_rule"]
    file.write_text(json.dumps(record))
    left = [u.name for u in making.missing_units(tmp_path, "fig3", SCALE, None)]
    assert "mnist text" not in left
    assert "mnist matrix" in left
    record["runs"]["mnist text"]["options"]["step_rule"] = "matrix"
    file.write_text(json.dumps(record))
    assert "mnist text" in [u.name for u in making.missing_units(tmp_path, "fig3", SCALE, None)]


def test_from_a_shell_to_files_and_claims(digits, tmp_path):
    ran = run("reproduce", "table3", "--quick", "--out", tmp_path)
    assert ran.code == 0, ran.err
    assert "runs, about" in ran.err
    assert (tmp_path / "table3.png").read_bytes().startswith(b"\x89PNG")
    assert ran.out.rstrip().endswith("report.html")
    claims = json.loads((tmp_path / "claims.json").read_text())
    for row in claims:
        verdict = WORDS[row["holds"]] or "no record"
        line = f"{verdict:<14} {row['claim']}: {row['ours'] or '-'}"
        assert any(said.endswith(line) for said in ran.out.splitlines())
    assert {row["holds"] is not None for row in claims if row["place"] == "Table 3"} == {True}
    again = run("reproduce", "report", "--out", tmp_path, "--json")
    assert again.json["claims"] == claims
    refused = run("reproduce", "fig9", "--out", tmp_path)
    assert (refused.code, refused.err.count("\n")) == (2, 1)


def test_an_empty_folder_is_presented_without_a_claim(tmp_path):
    shown = present(tmp_path)
    assert {row["holds"] for row in shown["claims"]} == {None}
    assert "No record of this piece" in (tmp_path / "report.html").read_text()
