"""What the records of `tables.py` say: scores, ranks, who is behind whom, seconds; as Markdown."""

import statistics
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table as Grid
from scipy.stats import rankdata

OURS, NETWORKS, BOOSTING = "dladmm", ("mlp", "mlp-stop"), "boosting"
HIGHER_IS_BETTER = {"accuracy": True, "log_loss": False, "r2": True}
TITLES = {"accuracy": "Accuracy", "log_loss": "Log-loss", "r2": "R²"}
Row = dict[str, Any]


def ranks(values: Sequence[float], higher_is_better: bool) -> list[float]:
    """1 for the best; equal values, but for rounding, share the mean of their places."""
    sign = -1.0 if higher_is_better else 1.0
    return [float(rank) for rank in rankdata([round(sign * value, 12) for value in values])]


def spread(values: Sequence[float]) -> dict[str, Any]:
    """Mean and sample standard deviation over the folds."""
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return {"mean": statistics.fmean(values), "std": deviation, "folds": list(values)}


def table_rows(records: Iterable[Row], n_folds: int) -> list[Row]:
    """A row for each table; a method has scores there if every fold has."""
    tables: dict[str, dict[str, list[Row]]] = {}
    for record in records:
        tables.setdefault(record["table"], {}).setdefault(record["method"], []).append(record)
    rows = []
    for name, methods in tables.items():
        some = next(iter(methods.values()))[0]
        row: Row = {"table": name, **{key: some[key] for key in ("task", "rows", "inputs")}}
        row |= {"classes": some["classes"], "scores": {}}
        for method, found in methods.items():
            good = sorted((one for one in found if "error" not in one), key=lambda r: r["fold"])
            if len(good) < n_folds:
                continue
            for score in (*HIGHER_IS_BETTER, "coverage"):
                if all(score in one for one in good):
                    values = [one[score] for one in good]
                    row["scores"].setdefault(score, {})[method] = spread(values)
        rows.append(row | {"seconds": first_seconds(methods)})
    return rows


def first_seconds(methods: dict[str, list[Row]]) -> Row | None:
    """Ours cold and warm beside the perceptron's in the first fold, if one run measured both."""
    first = {
        name: one
        for name in (OURS, NETWORKS[0])
        for one in methods.get(name, ())
        if one["fold"] == 0 and "error" not in one
    }
    if len(first) < 2 or len({one["run"] for one in first.values()}) > 1:
        return None
    ours, theirs = first[OURS], first[NETWORKS[0]]["seconds"]
    seconds = {"cold": ours["cold_seconds"], "warm": ours["seconds"], "mlp": theirs}
    seconds["load"] = max(one["load"] for one in first.values())
    return seconds | {f"{kind}_ratio": seconds[kind] / theirs for kind in ("cold", "warm")}


def mean_ranks(rows: Iterable[Row], score: str, methods: Sequence[str]) -> Row | None:
    """Over the tables where every method has this score."""
    cells = [row["scores"].get(score, {}) for row in rows]
    whole = [[cell[m]["mean"] for m in methods] for cell in cells if set(methods) <= set(cell)]
    if not whole:
        return None
    ranked = [ranks(values, HIGHER_IS_BETTER[score]) for values in whole]
    means = [statistics.fmean(column) for column in zip(*ranked, strict=True)]
    return {"tables": len(whole), "ranks": dict(zip(methods, means, strict=True))}


def behind(rows: Iterable[Row], score: str, others: Sequence[str]) -> list[Row]:
    """How far ours is behind the best of the others on each table, the worst first."""
    sign = 1.0 if HIGHER_IS_BETTER[score] else -1.0
    found = []
    for row in rows:
        cell = row["scores"].get(score, {})
        there = [name for name in others if name in cell]
        if OURS not in cell or not there:
            continue
        best = max(there, key=lambda name: sign * cell[name]["mean"])
        pairs = zip(cell[best]["folds"], cell[OURS]["folds"], strict=True)
        gaps = [sign * (theirs - ours) for theirs, ours in pairs]
        one = {"table": row["table"], OURS: cell[OURS]["mean"], "other": best}
        one |= {"best": cell[best]["mean"], "behind": statistics.fmean(gaps)}
        found.append(one | {"in_every_fold": min(gaps) > 0})
    return sorted(found, key=lambda one: -one["behind"])


def report_of(records: Sequence[Row], methods: Sequence[str], n_folds: int) -> Row:
    """Everything that the tables on the screen and in Markdown show."""
    rows = table_rows(records, n_folds)
    timed = [row["seconds"] for row in rows if row["seconds"]]
    failed = [
        {key: one[key] for key in ("table", "fold", "method", "error")}
        for one in records
        if "error" in one
    ]
    return {
        "methods": list(methods),
        "folds": n_folds,
        "tables": rows,
        "mean_ranks": {score: mean_ranks(rows, score, methods) for score in HIGHER_IS_BETTER},
        "behind_mlp": {score: behind(rows, score, NETWORKS) for score in HIGHER_IS_BETTER},
        "boosting_ahead": {
            score: [one for one in behind(rows, score, (BOOSTING,)) if one["behind"] > 0]
            for score in HIGHER_IS_BETTER
        },
        "time_ratio": {
            kind: statistics.geometric_mean([one[f"{kind}_ratio"] for one in timed])
            for kind in ("cold", "warm")
            if timed
        },
        "failed": failed,
        "runs": sorted({one["run"] for one in records}),
        "code": sorted({one["code"] for one in records}),
    }


def lines_of(header: Sequence[str], body: Iterable[Sequence[str]]) -> list[str]:
    """A Markdown table and the empty line after it."""
    rows = [header, ["---"] * len(header), *body]
    return ["| " + " | ".join(row) + " |" for row in rows] + [""]


def score_cells(report: Row, score: str, mark: str = "{}") -> list[list[str]]:
    """Table by table the means and deviations, the best in `mark`; the mean ranks at the end."""
    pick = max if HIGHER_IS_BETTER[score] else min
    body = []
    for row in report["tables"]:
        cell = row["scores"].get(score)
        if not cell:
            continue
        best = f"{pick(one['mean'] for one in cell.values()):.3f}"
        line = [row["table"]]
        for method in report["methods"]:
            shown = f"{cell[method]['mean']:.3f}" if method in cell else "–"
            text = mark.format(shown) if shown == best else shown
            line.append(f"{text} ± {cell[method]['std']:.3f}" if method in cell else text)
        body.append(line)
    if ranked := report["mean_ranks"][score]:
        means = [f"{ranked['ranks'][method]:.2f}" for method in report["methods"]]
        body.append([f"mean rank, {ranked['tables']} tables", *means])
    return body


def gap_lines(title: str, gaps: Sequence[Row]) -> list[str]:
    header = ["table", OURS, "other", "its score", "behind by", "in every fold"]
    body = [
        (
            one["table"],
            f"{one[OURS]:.3f}",
            one["other"],
            f"{one['best']:.3f}",
            f"{one['behind']:+.3f}",
            "yes" if one["in_every_fold"] else "no",
        )
        for one in gaps
    ]
    return [f"### {title}", "", *(lines_of(header, body) if body else ["None.", ""])]


def second_lines(report: Row) -> list[str]:
    """Seconds of a fit in the first fold, where one run measured both."""
    timed = [row for row in report["tables"] if row["seconds"]]
    if not timed:
        return []
    kinds = ("mlp", "warm", "cold")
    body = [
        [row["table"], str(row["rows"]), str(row["inputs"])]
        + [f"{row['seconds'][kind]:.2f}" for kind in kinds]
        + [f"{row['seconds'][kind + '_ratio']:.2f}" for kind in kinds[1:]]
        + [f"{row['seconds']['load']:.1f}"]
        for row in timed
    ]
    ratios = [f"{report['time_ratio'][kind]:.2f}" for kind in kinds[1:]]
    body.append(["geometric mean", "", "", "", "", "", *ratios, ""])
    header = ["table", "rows", "inputs", "mlp", f"{OURS}, second fit", f"{OURS}, first fit"]
    header += ["ratio", "ratio, first fit", "load"]
    about = ["Seconds of a fit in the first fold; the first fit compiles. Ratios are to mlp's."]
    about += ["A load above the number of cores: other programs slowed both, not always alike.", ""]
    return ["## Seconds", "", *about, *lines_of(header, body)]


def coverage_lines(report: Row) -> list[str]:
    body = [
        [row["table"], f"{row['scores']['coverage'][OURS]['mean']:.3f}"]
        for row in report["tables"]
        if OURS in row["scores"].get("coverage", {})
    ]
    title = ["## Targets inside 90 % intervals", ""]
    return [*title, *lines_of(["table", OURS], body)] if body else []


def markdown(report: Row) -> str:
    """The page beside the JSON."""
    lines = ["# Defaults against defaults on tables", ""]
    lines += [f"`{report['command']}`", ""]
    lines += [f"Mean and standard deviation over {report['folds']} folds; the best in bold.", ""]
    for score, title in TITLES.items():
        if body := score_cells(report, score, "**{}**"):
            lines += [f"## {title}", "", *lines_of(["table", *report["methods"]], body)]
            gaps, ahead = report["behind_mlp"][score], report["boosting_ahead"][score]
            lines += gap_lines("Behind the better perceptron, the worst first", gaps)
            lines += gap_lines("Where boosting stays ahead", ahead)
    lines += second_lines(report) + coverage_lines(report)
    if report["failed"]:
        keys = ("table", "fold", "method", "error")
        body = [[" ".join(str(one[key]).split()) for key in keys] for one in report["failed"]]
        lines += ["## Failed", "", *lines_of(keys, body)]
    facts = {**report["machine"], "fitted with": ", ".join(report["code"])}
    facts["runs begun"] = ", ".join(report["runs"])
    body = [[name, str(value)] for name, value in facts.items()]
    lines += ["## Machine and versions", "", *lines_of(["", ""], body)]
    return "\n".join(lines).rstrip() + "\n"


def show(report: Row) -> None:
    """The scores on the screen."""
    console = Console(width=120)
    for score, title in TITLES.items():
        if body := score_cells(report, score):
            grid = Grid(title=title, box=None, title_justify="left")
            for name in ("table", *report["methods"]):
                grid.add_column(name, no_wrap=True)
            for line in body:
                grid.add_row(*line)
            console.print(grid)
    for one in report["failed"]:
        console.print(
            f"failed: {one['table']}, {one['method']}, fold {one['fold']}: {one['error']}"
        )
    if report["time_ratio"]:
        cold, warm = (f"{report['time_ratio'][kind]:.2f}" for kind in ("cold", "warm"))
        console.print(f"seconds to mlp's: {warm} times, {cold} with compilation")
