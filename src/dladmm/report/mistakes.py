"""What a network gets wrong: classes taken for others, what is left over, the worst rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

import numpy as np

from dladmm.report import measures
from dladmm.report.figures import points
from dladmm.report.page import Bold, Cell, Section, Table, folded, html_table
from dladmm.report.pictures import image_tag
from dladmm.report.subject import Subject
from dladmm.report.words import figure_text

MOST_DOTS = 2_000
MOST_CLASSES = 20  # of a confusion matrix
SHOWN = 20  # rows of a list of mistakes
WORST = 10
CELLS = 6  # columns of a row among the worst mistakes


def mistaken(subject: Subject) -> list[Section]:
    """The confusion matrix, or what is left over, whichever the task has."""
    if not subject.classifies:
        return [Section("residuals", "Predicted and observed", _residuals(subject), "Residuals")]
    if subject.y.ndim == 2:
        return [Section("labels", "Label by label", _labels(subject), "Labels")]
    return [
        Section("confusion", "Which class is taken for which", _confusion(subject), "Confusion")
    ]


def _labels(subject: Subject) -> str:
    rows: list[list[Cell]] = []
    for k in range(subject.y.shape[1]):
        y, predicted = subject.y[:, k] > 0, np.asarray(subject.predicted)[:, k] > 0
        found = [
            np.mean(y),
            np.mean(y == predicted),
            _ratio(y & predicted, predicted),
            _ratio(y & predicted, y),
        ]
        rows.append([str(subject.estimator.classes_[k]), *(f"{value:.3f}" for value in found)])
    return html_table(Table(("label", "share", "right", "precision", "recall"), rows), "numbers")


def _ratio(part: np.ndarray, whole: np.ndarray) -> float:
    return float(part.sum() / whole.sum()) if whole.any() else math.nan


def _confusion(subject: Subject) -> str:
    classes = subject.estimator.classes_
    counts = measures.confusion(subject.y, subject.predicted, classes)
    names = [str(name) for name in classes]
    mixed = [
        (int(counts[i, j]), names[i], names[j])
        for i, j in zip(*np.nonzero(counts), strict=True)
        if i != j
    ]
    often = sorted(mixed, reverse=True)[:SHOWN]
    rows = [[true, taken, f"{count:,}"] for count, true, taken in often]
    table = html_table(Table(("class", "taken for", "rows"), rows), "numbers")
    if len(names) > MOST_CLASSES:
        return f"<p>{len(names)} classes; the most frequent mistakes.</p>{table}"
    return _matrix(counts, names) + folded("The most frequent mistakes as a list", table)


def _matrix(counts: np.ndarray, names: Sequence[str]) -> str:
    """A row for each class, shaded by its share of that row."""
    heads = "".join(f'<th scope="col">{escape(name)}</th>' for name in names)
    lines = []
    for name, row in zip(names, counts, strict=True):
        cells = "".join(
            f'<td style="--part: {round(60 * n / max(row.sum(), 1))}%"'
            f' title="{escape(f"{name} taken for {other}: {n}", quote=True)}">{n:,}</td>'
            for other, n in zip(names, row.tolist(), strict=True)
        )
        lines.append(f'<tr><th scope="row">{escape(name)}</th>{cells}</tr>')
    return (
        '<p>Rows are true classes, columns what the network took them for.</p><div class="wide"'
        ' tabindex="0" role="group" aria-label="Confusion matrix"><table class="confusion"><thead>'
        f"<tr><td></td>{heads}</tr></thead><tbody>{''.join(lines)}</tbody></table></div>"
    )


def _residuals(subject: Subject) -> str:
    y, predicted = map(measures.columns_of, (subject.decode(subject.y), subject.predicted))
    kept = np.arange(0, len(y), max(1, -(-len(y) // MOST_DOTS)))
    texts = [f"row {row}" for row in subject.rows[kept]]
    labels = [
        subject.target if y.shape[1] == 1 else f"{subject.target} {k}" for k in range(y.shape[1])
    ]
    unit = f" ({subject.unit})" if subject.unit else ""
    pairs = [(label, predicted[kept, k], y[kept, k], texts) for k, label in enumerate(labels)]
    off = [(label, p, seen - p, t) for label, p, seen, t in pairs]
    low, high = float(min(y.min(), predicted.min())), float(max(y.max(), predicted.max()))
    first = points(
        pairs, "Observed by predicted", (f"predicted{unit}", f"observed{unit}"), "observed",
        "On the dashed line a prediction is right.", (low, low, high, high),
    )  # fmt: skip
    second = points(
        off, "What is left by predicted", (f"predicted{unit}", f"observed − predicted{unit}"),
        "left",
        "A network that has found all there is leaves a cloud without a shape.", (low, 0, high, 0),
    )  # fmt: skip
    tables = "".join(
        folded(f"As a table: {label}", html_table(_by_prediction(p, seen), "numbers"))
        for label, p, seen, _ in pairs
    )
    return f'<div class="figures">{first}{second}</div>{tables}'


def _by_prediction(predicted: np.ndarray, observed: np.ndarray) -> Table:
    """The rows in ten parts, from the lowest prediction to the highest."""
    parts = np.array_split(np.argsort(predicted, kind="stable"), min(10, len(predicted)))
    rows = []
    for part in parts:
        p, left = predicted[part], observed[part] - predicted[part]
        figures = (p[0], p[-1], observed[part].mean(), left.mean(), left.std())
        rows.append([*map(figure_text, figures), f"{len(part):,}"])
    heads = ("predicted from", "to", "observed, mean", "left over, mean", "deviation", "rows")
    return Table(heads, rows)


def worst(subject: Subject, tested: Sequence[measures.Importance]) -> str:
    """The rows it is most wrong about."""
    y, predicted = subject.decode(subject.y), subject.predicted
    if subject.classifies and y.ndim == 1:
        wrong = predicted != y
        sure = (
            measures.own_probability(y, subject.shares, subject.estimator.classes_)
            if subject.shares is not None
            else 1.0 - wrong
        )
        order = np.argsort(np.where(wrong, sure, np.inf), kind="stable")[
            : min(WORST, int(wrong.sum()))
        ]
    else:
        off = np.abs(measures.columns_of(predicted) - measures.columns_of(y)).sum(axis=1)
        order = np.argsort(-off, kind="stable")[:WORST]
        order = order[off[order] > 0]
    if not len(order):
        return "<p>There is none: every row is right.</p>"
    if subject.image_shape is not None:
        return _images(subject, order)
    names = [one.name for one in tested[:CELLS]]
    places = dict(subject.groups)
    cell = subject.cells or (lambda k, name: f"{subject.X[k, places[name][0]]:.4g}")
    rows: list[list[Cell]] = [
        [f"{subject.rows[k]}", *_answer(subject, k), *(cell(k, name) for name in names)]
        for k in order
    ]
    heads = ("row", "observed", "predicted", *names)
    note = "<p>Beside the columns that matter most.</p>" if len(names) < len(subject.groups) else ""
    return note + html_table(Table(heads, rows))


def _answer(subject: Subject, k: int) -> tuple[Cell, Cell]:
    """What was observed and what was predicted, of row k."""
    y, predicted = subject.decode(subject.y)[k], subject.predicted[k]
    if not subject.classifies:
        shown = [
            ", ".join(figure_text(value) for value in np.atleast_1d(one)) for one in (y, predicted)
        ]
        return shown[0], Bold(shown[1])
    if np.ndim(y):
        return str(np.flatnonzero(y).tolist()), Bold(str(np.flatnonzero(predicted).tolist()))
    if subject.shares is None:
        return str(y), Bold(str(predicted))
    own = measures.own_probability(
        subject.y[k : k + 1], subject.shares[k : k + 1], subject.estimator.classes_
    )
    return (str(y), f"{own[0]:.1%} sure"), (
        Bold(str(predicted)),
        f"{subject.shares[k].max():.1%} sure",
    )


def _images(subject: Subject, order: np.ndarray) -> str:
    shown = []
    for k in order:
        y, predicted = (one if isinstance(one, str) else one[0] for one in _answer(subject, k))
        words = escape(f"row {subject.rows[k]}: {y}, taken for {predicted}", quote=True)
        picture = image_tag(subject.X[k].reshape(subject.image_shape), words)
        shown.append(f"<figure>{picture}<figcaption>{words}</figcaption></figure>")
    return f'<div class="mistakes">{"".join(shown)}</div>'
