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
from dladmm.report.figures import bars, curves, points
from dladmm.report.page import Bold, Cell, Section, Table, folded, html_table, listed
from dladmm.report.panels import BLUE, ORANGE, Line, Panel
from dladmm.report.pictures import image_tag
from dladmm.report.subject import Subject
from dladmm.report.words import certificate_words

MOST_DOTS = 2_000
MOST_CLASSES = 20  # of a confusion matrix
MOST_TRIED = 60  # columns whose importance is measured
ROWS_TRIED = 1_000
SHOWN = 20  # bars, and rows of tables that go on
WORST = 10
CELLS = 6  # columns of a row among the worst mistakes


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


def figure_text(value: float | None) -> str:
    """Four digits, and no powers of ten where a number fits."""
    if value is None or not math.isfinite(value):
        return "—"
    return f"{value:,.0f}" if 1_000 <= abs(value) < 1e9 else f"{value:.4g}"


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
    return html_table(Table(("", "the network", "baseline", ""), rows), "numbers", marks)


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
    return f'{words}<div class="figures">{"".join(drawn)}</div>'


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
    y, predicted = (_columns_of(subject.decode(subject.y)), _columns_of(subject.predicted))
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
    return f'<div class="figures">{first}{second}</div>'


def _columns_of(values: Any) -> np.ndarray:
    return np.asarray(values, dtype=float).reshape(len(values), -1)


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
        return measures.r_squared(_columns_of(y), _columns_of(subject.decode(predicted)))

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
        off = np.abs(_columns_of(predicted) - _columns_of(y)).sum(axis=1)
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
    return html_table(Table(("", ""), rows))
