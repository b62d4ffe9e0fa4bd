"""The summary in Markdown: claims, the paper's seconds beside ours, where runs were made."""

from evaluation_records import MACHINE, RECORDS, SCALE

from dladmm.paper import settings as paper
from dladmm.paper.claims import claims_table
from dladmm.paper.tables import summary


def lines_of(records):
    return summary(records, claims_table(records)).splitlines()


def test_every_claim_has_a_row_and_every_table_its_columns():
    lines = lines_of(RECORDS)
    places = ("| Fig.", "| Table", "| 5.1.3")
    assert sum(line.startswith(places) for line in lines) == len(claims_table(RECORDS))
    assert any(r"\|r\| is" in line for line in lines)  # a bar is not a new cell
    tables = [k for k, line in enumerate(lines) if line.startswith("| ρ |")]
    assert [lines[k] for k in tables] == 2 * ["| ρ | 3 | 6 |"] + 2 * ["| ρ | 50 | 100 |"]
    assert lines[tables[0] + 2] == "| 1e-06 | 0.03 | 0.06 |"


def test_the_papers_seconds_stand_below_ours_in_its_own_setting_alone():
    scale = {**RECORDS["table2"]["scale"], "name": "full", "neurons": paper.NEURONS}
    row = RECORDS["table2"]["runs"]["mnist 3"]
    runs = {f"mnist {size}": row for size in paper.NEURONS}
    text = "\n".join(lines_of({"table2": {"piece": "table2", "scale": scale, "runs": runs}}))
    first = " | ".join(f"0.03<br>*{v:.4g}*" for v in paper.SECONDS_BY_NEURONS["mnist"][0])
    assert f"| 1e-06 | {first} |" in text
    assert "the paper's average of 200 (GTX" in text
    assert "Fashion-MNIST\n\nMedian" not in text  # its cells are missing
    assert "the paper's average of 200 (GTX" not in "\n".join(lines_of(RECORDS))


def test_settings_and_machines_are_told():
    lines = lines_of(RECORDS)
    told = next(line for line in lines if line.startswith("| fig5 |"))
    assert f"{SCALE.iterations} iterations, seeds 0 to 1" in told
    assert told.count(MACHINE["processor"]) == 1
    other = {"fig3": {**RECORDS["fig3"], "runs": dict(RECORDS["fig3"]["runs"])}}
    first = next(iter(other["fig3"]["runs"]))
    moved = {**MACHINE, "processor": "another"}
    other["fig3"]["runs"][first] = {**other["fig3"]["runs"][first], "machine": moved}
    told = next(line for line in lines_of(other) if line.startswith("| fig3 |"))
    assert f"2026-01-01 ({first})" in told
    assert "another, 2 cores, python 3, jax 0, optax 0, numpy 2, dladmm 0" in told


def test_without_records_there_are_rows_without_figures():
    lines = lines_of({})
    rows = [line for line in lines if line.startswith("| Table 2 |")]
    assert rows
    assert all(line.endswith("|  |  |") for line in rows)
