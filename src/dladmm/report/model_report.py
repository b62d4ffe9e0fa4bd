"""The page of a fitted network: what it does on rows it has not seen, and what its fit proves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from dladmm.io.files import write_file
from dladmm.report import measures, mistakes, sections
from dladmm.report.figures import library
from dladmm.report.page import Section, document, listed
from dladmm.report.subject import Subject, chosen
from dladmm.report.words import figure_text


@dataclass(frozen=True)
class Report:
    """A page about a fitted network.

    Parameters
    ----------
    html : str
        The page, self-contained.
    """

    html: str

    def save(self, path: Any) -> None:
        """Write the page to a file, whole or not at all.

        Parameters
        ----------
        path : str or path
            Where to write it.
        """
        write_file(Path(path), self.html)

    def _repr_html_(self) -> str:
        """In a notebook: the page in a frame of its own."""
        page = escape(self.html, quote=True)
        return f'<iframe srcdoc="{page}" title="Report" width="100%" height="900"></iframe>'


def report(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    names: Sequence[str] | None = None,
    image_shape: tuple[int, int] | None = None,
    title: str = "",
) -> Report:
    """The page of an estimator on rows it has not seen; ValueError where they do not fit."""
    if names is None:
        names = [str(name) for name in getattr(X, "columns", [])]
        names = names or [f"column {k}" for k in range(X.shape[1])]
    X = X.toarray() if sparse.issparse(X) else np.asarray(X)
    y = np.asarray(y.toarray() if sparse.issparse(y) else y)
    check_rows(X, y, names, image_shape)
    rows = chosen(len(X))
    groups = [(str(name), [k]) for k, name in enumerate(names)]
    subject = Subject(
        estimator,
        X[rows],
        y[rows],
        groups,
        y,
        rows,
        title=title,
        image_shape=image_shape,
        notes=["What the baseline knows is the targets of these very rows."],
        seed=estimator.random_state,
    )
    return page_of(subject)


def check_rows(
    X: np.ndarray, y: np.ndarray, names: Sequence[str], image_shape: tuple[int, int] | None
) -> None:
    if len(X) != len(y) or len(X) < 2:
        raise ValueError(
            f"X has {len(X)} rows and y {len(y)}; expected the same number, at least two"
        )
    if len(names) != X.shape[1]:
        raise ValueError(f"names has {len(names)} entries; expected {X.shape[1]}, one per column")
    if image_shape is not None and math.prod(image_shape) != X.shape[1]:
        raise ValueError(
            f"image_shape={image_shape!r} has {math.prod(image_shape)} pixels; expected"
            f" {X.shape[1]}, the columns of X"
        )


def page_of(subject: Subject) -> Report:
    """The page, section by section; what does not apply to a network is left out."""
    tested = sections.importances_of(subject)
    scores = sections.scores_of(subject)
    parts = [
        Section("scores", "Scores on rows it has not seen", sections.score_table(scores), "Scores"),
        Section("curves", "How the fit went", sections.fit_curves(subject.shown_model), "Curves"),
        *mistakes.mistaken(subject),
        *sections.calibrated(subject),
        Section(
            "importance", "Which columns matter", sections.importance(subject, tested), "Columns"
        ),
        Section("mistakes", "The worst mistakes", mistakes.worst(subject, tested), "Mistakes"),
        *sections.columns_of_table(subject),
        Section("certificate", "What the fit proves", sections.certificate(subject), "Certificate"),
        Section("versions", "Settings and versions", sections.versions(subject), "Versions"),
    ]
    name = subject.title or f"{type(subject.estimator).__name__} on {subject.target}"
    lead = _lead(subject, scores, tested)
    return Report(document(f"Report: {name}", name, lead, parts, library()))


def _lead(
    subject: Subject, scores: Sequence[measures.Score], tested: Sequence[measures.Importance]
) -> str:
    """The answer first: figures that stand out, and a few sentences."""
    shown = figure_text
    tiles = "".join(
        f'<div class="tile"><b>{shown(score.value)}</b>'
        f"<span>{escape(_in_unit(score.name, subject.unit))}<br>"
        f"{escape(score.words)}: {shown(score.baseline)}</span></div>"
        for score in scores
    )
    first = scores[0]
    verdict = "better than" if first.is_better else "NO better than"
    words = [
        f"On {len(subject.y):,} rows it has not seen the network is {verdict} its baseline.",
        f"Why its fit ended: {subject.shown_model.message_}.",
    ]
    if tested and tested[0].falls > 0:
        words.append(f"The column that matters most is {tested[0].name}.")
    words += [*subject.notes]
    return f'<div class="tiles">{tiles}</div>{listed(words)}'


def _in_unit(name: str, unit: str) -> str:
    """An error has the unit of the target; R2 has none."""
    return f"{name} in {unit}" if unit and "error" in name else name
