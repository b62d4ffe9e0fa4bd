"""What the HTML report and the Markdown summary both tabulate, from records alone; the summary."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from dladmm.paper import settings as paper
from dladmm.paper.claims import WORDS
from dladmm.paper.timings import table_cells
from dladmm.paper.verdicts import NoRecord, Records
from dladmm.report.page import Cell, Table

BAR = r"\|"  # within a cell of Markdown


def claims_cells(claims: Sequence[Mapping[str, Any]]) -> Table:
    """A row per claim, why it does not hold below it; without a record its last cells are empty."""
    heads = ("where", "data", "claim", "paper", "dlADMM as in", "ours", "verdict")
    rows = [
        [row["place"], row["data"], (row["claim"], row["why"] or ""), row["paper"], row["variant"],
         row["ours"] or "", WORDS[row["holds"]]]
        for row in claims
    ]  # fmt: skip
    return Table(heads, rows)


def settings_cells(records: Records) -> Table:
    rows = [[piece, setting(record), machines(record)] for piece, record in records.items()]
    return Table(("piece", "setting", "where"), rows)


class Seconds(NamedTuple):
    """Table 2 or 3 for one data set: a row per rho of (our seconds, the paper's) per size.

    The paper's are None in a setting that is not the paper's.
    """

    title: str
    note: str
    sizes: list[int]
    rows: dict[float, list[tuple[float, float | None]]]

    def cells(self) -> Table:
        """As text, the paper's seconds below ours."""
        texts = {
            rho: [(f"{ours:.4g}", f"{theirs:.4g}" if theirs else "") for ours, theirs in row]
            for rho, row in self.rows.items()
        }
        heads = ("ρ", *(f"{size:,}" for size in self.sizes))
        return Table(heads, [[f"{rho:g}", *row] for rho, row in texts.items()])


def seconds_tables(record: Mapping[str, Any]) -> Iterator[Seconds]:
    """The tables of a record's data sets, of those that are complete."""
    by_neurons, scale = record["piece"] == "table2", record["scale"]
    known = paper.SECONDS_BY_NEURONS if by_neurons else paper.SECONDS_BY_SIZE
    full = scale["name"] == "full"
    for data, title in paper.DATA.items():
        try:
            ours = table_cells(record, data, "seconds")
        except NoRecord:
            continue
        sizes = scale["neurons"] if by_neurons else scale["sizes"][data]
        # The first iteration, which may compile, and the last are not counted.
        note = f"Median of iterations 2 to {scale['timed_iterations'] + 1} of two runs" + (
            "; below, the paper's average of 200 (GTX 1080 Ti)." if full else "."
        )
        rows = {
            rho: list(zip(ours[k], known[data][k] if full else [None] * len(sizes), strict=True))
            for k, rho in enumerate(paper.RHOS)
        }
        yield Seconds(title, note, list(sizes), rows)


def setting(record: Mapping[str, Any]) -> str:
    """How large the runs of a piece are, in words."""
    piece, scale = record["piece"], record["scale"]
    samples = ", ".join(f"{paper.DATA[d]} {n:,}" for d, n in scale["samples"].items())
    if piece.startswith("table"):
        length = f"{2 * scale['timed_iterations']} iterations in two passes over rho, seed 0"
    else:
        several = piece in paper.ACCURACY_FIGURES and scale["seeds"] > 1
        seeds = f"seeds 0 to {scale['seeds'] - 1}" if several else "seed 0"
        length = f"{scale['iterations']} iterations, {seeds}"
    return (
        f"{scale['name']}: {samples} training images, {scale['test_samples']:,} test images,"
        f" two hidden layers of {scale['width']:,}, {length}"
    )


def machines(record: Mapping[str, Any]) -> str:
    """Where the runs were made; which ones on which machine and day, if there are several."""
    made: dict[str, list[str]] = {}
    for name, run in record["runs"].items():
        made.setdefault(_machine(run["machine"]), []).append(name)
    if len(made) == 1:
        return next(iter(made))
    return "; ".join(f"{machine} ({', '.join(names)})" for machine, names in sorted(made.items()))


def _machine(machine: Mapping[str, Any]) -> str:
    versions = ", ".join(
        f"{name} {machine[name]}" for name in ("python", "jax", "optax", "numpy", "dladmm")
    )
    return f"{machine['processor']}, {machine['cores']} cores, {versions}, {machine['date']}"


def summary(records: Records, claims: Sequence[Mapping[str, Any]]) -> str:
    """Everything that is not a curve, as Markdown."""
    parts = ["# The evaluation of dlADMM (KDD 2019)", "## Claims of Section 5"]
    parts.append(_markdown_table(claims_cells(claims)))
    for piece, words in (("table2", "neurons"), ("table3", "training samples")):
        for table in seconds_tables(records[piece]) if piece in records else ():
            title = f"## Table {piece[-1]}: seconds per iteration by {words}, {table.title}"
            parts += [title, table.note, _markdown_table(table.cells())]
    parts += ["## Settings and versions", _markdown_table(settings_cells(records))]
    return "\n\n".join(parts) + "\n"


def _markdown_table(table: Table) -> str:
    lines = [table.heads, ["---"] * len(table.heads), *table.rows]
    return "\n".join(f"| {' | '.join(map(_markdown_cell, line))} |" for line in lines)


def _markdown_cell(cell: Cell) -> str:
    text, below = (cell, "") if isinstance(cell, str) else cell
    return (text + (f"<br>*{below}*" if below else "")).replace("|", BAR)
