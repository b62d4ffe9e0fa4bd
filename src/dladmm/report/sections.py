"""The sections of a network's page, as HTML: what each says, from a `Subject` alone."""

from __future__ import annotations

import math
import platform
import time
from collections.abc import Mapping, Sequence
from html import escape
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from dladmm._version import __version__
from dladmm.report import measures
from dladmm.report.figures import bars, curves
from dladmm.report.page import Cell, Section, Table, folded, html_table, listed
from dladmm.report.panels import BLUE, ORANGE, Line, Panel
from dladmm.report.subject import Subject
from dladmm.report.words import certificate_words, figure_text

MOST_TRIED = 60  # columns whose importance is measured
ROWS_TRIED = 1_000
SHOWN = 20  # bars, and rows of tables that go on


def scores_of(subject: Subject) -> list[measures.Score]:
    y, predicted = subject.decode(subject.y), subject.predicted
    if not subject.classifies:
        return measures.number_scores(y, predicted, subject.decode(subject.known))
    if y.ndim == 2:
        most = (subject.known.mean(axis=0) > 0.5).astype(int)
        right, alike = predicted == y, y == most
        words = "each label's more frequent value"
        return [
            measures.Score(
                "labels that are right", float(right.mean()), float(alike.mean()), words
            ),
            measures.Score(
                "rows with all labels right",
                float(right.all(1).mean()),
                float(alike.all(1).mean()),
                words,
            ),
        ]
    classes = subject.estimator.classes_
    return measures.class_scores(y, predicted, subject.shares, classes, subject.known)


def score_table(scores: Sequence[measures.Score]) -> str:
    rows = [
        [
            s.name,
            figure_text(s.value),
            (figure_text(s.baseline), s.words),
            "better" if s.is_better else "no better",
        ]
        for s in scores
    ]
    marks: Mapping[Cell, str] = {"better": "yes", "no better": "no"}
    heads = ("score", "the network", "baseline", "verdict")
    return html_table(Table(heads, rows), "numbers", marks)


CURVES = {
    "train_loss": "training loss",
    "lagrangian": "objective",
    "gap": "hidden by the relaxation",
    "train_accuracy": "training",
    "validation_score": "held out",
    "test_accuracy": "test",
}


def fit_curves(model: Any) -> str:
    """Loss and accuracy by iteration, of what was recorded."""

    def line(name: str, colour: str) -> Line | None:
        y = np.asarray(model.history_.get(name, []), dtype=float)
        seen = np.flatnonzero(np.isfinite(y))
        if not len(seen):
            return None
        return Line(
            CURVES[name], (seen + 1).tolist(), y[seen].tolist(), colour, wide=colour == BLUE
        )

    relaxed = model.certificate_.has_penalties
    panels = [
        ("Loss per row", ["train_loss", "gap" if relaxed else ""], True),
        ("Score", ["train_accuracy", "validation_score"], False),
    ]
    drawn: list[str] = []
    for title, names, log in panels:
        lines = [
            found
            for name, colour in zip(names, (BLUE, ORANGE), strict=True)
            if (found := line(name, colour))
        ]
        if lines:
            positive = all(value > 0 for one in lines for value in one.y)
            drawn.append(curves(Panel(title, lines, log=log and positive), f"curve-{len(drawn)}"))
    seconds = model.history_["seconds"][-1] if model.history_.get("seconds") else math.nan
    words = f"<p>{model.n_iter_} iterations in {seconds:.2f} s.</p>"
    table = folded("As a table", html_table(_curve_table(model.history_), "numbers"))
    return f'{words}<div class="figures">{"".join(drawn)}</div>{table}'


def _curve_table(history: Mapping[str, Sequence[float]]) -> Table:
    """Some of the iterations, the first and the last among them, for who does not see curves."""
    names = [name for name in CURVES if np.isfinite(history.get(name, [])).any()]
    seen = np.flatnonzero(np.isfinite(history["train_loss"]))
    some = seen[np.unique(np.linspace(0, len(seen) - 1, SHOWN).round().astype(int))]
    rows = [[str(k + 1), *(f"{history[name][k]:.4g}" for name in names)] for k in some]
    return Table(("iteration", *(CURVES[name] for name in names)), rows)


def calibrated(subject: Subject) -> list[Section]:
    """Whether it is as sure as it should be, where it says how sure it is."""
    title, name = "Whether it is as sure as it should be", "calibration"
    if subject.shares is not None and subject.y.ndim == 1:
        right = subject.predicted == subject.y
        found = measures.calibration(right, subject.shares.max(axis=1))
        x, y, counts = zip(*found, strict=True)
        words = "Of the rows it is 90 % sure of, nine in ten should be right: the dashed line."
        heads = ("probability", "right", "rows")
    elif getattr(subject.estimator, "covariance_", None) is not None:
        _, deviation = subject.estimator.predict(subject.named(subject.X), return_std=True)
        off = subject.decode(subject.y) - subject.predicted
        levels = measures.coverage(off, subject.scale * deviation)
        x, y = zip(*levels, strict=True)
        counts = tuple(len(off) for _ in x)
        words = "Of the 90 % intervals nine in ten should hold what was observed: the dashed line."
        heads = ("interval", "inside", "rows")
    else:
        return []
    lines = [
        Line("this network", x, y, BLUE, wide=True),
        Line("as it should be", (min(x), max(x)), (min(x), max(x)), ORANGE, dashed=True),
    ]
    figure = curves(Panel("Share that came true", lines, x_title=heads[0]), "calibrated", words)
    rows = [[f"{a:.3f}", f"{b:.3f}", f"{n:,}"] for a, b, n in zip(x, y, counts, strict=True)]
    table = folded("As a table", html_table(Table(heads, rows), "numbers"))
    return [Section(name, title, figure + table, "Calibration")]


def importances_of(subject: Subject) -> list[measures.Importance]:
    """Where there are many columns, of those with the largest weights, or of those that vary most
    where columns share their weights, as pixels do under a filter."""
    rows = np.arange(0, len(subject.X), max(1, -(-len(subject.X) // ROWS_TRIED)))
    X, y = np.asarray(subject.X[rows]), subject.decode(subject.y[rows])

    def score(inputs: np.ndarray) -> float:
        predicted = subject.predict(inputs)
        if subject.classifies:
            return float(np.mean(predicted == y))
        return measures.r_squared(*map(measures.columns_of, (y, subject.decode(predicted))))

    groups = list(subject.groups)
    if len(groups) > MOST_TRIED:
        size = X.std(axis=0)
        if not _shares_weights(subject):
            size = size * np.abs(np.asarray(subject.estimator.coefs_[0])).sum(axis=1)
        groups.sort(key=lambda group: -size[list(group[1])].sum())
    return measures.importances(score, X, groups[:MOST_TRIED])


def _shares_weights(subject: Subject) -> bool:
    return len(subject.estimator.coefs_[0]) != subject.estimator.n_features_in_


def importance(subject: Subject, tested: Sequence[measures.Importance]) -> str:
    score = "accuracy" if subject.classifies else "R²"
    which = "that vary most" if _shares_weights(subject) else "with the largest weights"
    tried = f"{len(tested)} of {len(subject.groups)} columns tried, those {which}. "
    words = (
        f"By how much the {score} falls where the column is shuffled among the rows, three times;"
        " lines are the spread. Columns that say the same share what they matter."
    )
    shown = tested[:SHOWN]
    figure = bars(
        [one.name for one in shown],
        [one.falls for one in shown],
        [one.spread for one in shown],
        f"Fall of the {score}",
        "fall",
        (tried if len(tested) < len(subject.groups) else "") + words,
    )
    rows = [[one.name, f"{one.falls:.4f}", f"{one.spread:.4f}"] for one in tested]
    table = html_table(Table(("column", "fall", "spread"), rows), "numbers")
    return figure + folded("As a table", table)


def columns_of_table(subject: Subject) -> list[Section]:
    if subject.columns is None:
        return []
    content = html_table(subject.columns)
    if subject.remarks:
        content = listed(subject.remarks) + content
    return [Section("columns", "The columns, and what became of them", content, "Table")]


def certificate(subject: Subject) -> str:
    certificate = subject.shown_model.certificate_
    exact = f"<pre>{escape(certificate.summary())}</pre>"
    return listed(certificate_words(certificate)) + folded("In the paper's terms", exact)


def versions(subject: Subject) -> str:
    model = subject.shown_model
    sizes = "-".join(str(n) for n in (*(W.shape[0] for W in model.coefs_), model.n_outputs_))
    rows: list[list[Cell]] = [
        ["network", sizes],
        ["seed", str(subject.seed)],
        ["dladmm", __version__],
        ["Python", platform.python_version()],
    ]
    for package in ("numpy", "jax", "scikit-learn"):
        try:
            rows.append([package, version(package)])
        except PackageNotFoundError:
            continue
    rows.append(["date", time.strftime("%Y-%m-%d")])
    changed = {
        name: value
        for name, value in model.get_params(deep=False).items()
        if repr(value) != repr(type(model)().get_params(deep=False)[name])
    }
    rows += [[name, str(value)] for name, value in changed.items() if name != "random_state"]
    return html_table(Table(("what", "value"), rows))
