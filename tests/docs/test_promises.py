"""What README, docs and docstrings say of a method is said of the method it is true of."""

import re

import numpy as np
import pytest
from run_records import ROOT
from sklearn.datasets import load_diabetes

from dladmm import DLADMMRegressor
from dladmm.core.restored.evidence import COLUMNS
from dladmm.report.words import certificate_words

PAGES = [
    *(ROOT / name for name in ("README.md", "SECURITY.md", "CITATION.cff", "mkdocs.yml")),
    *(ROOT / name for name in ("CHANGELOG.md", "CONTRIBUTING.md", "pyproject.toml")),
    *(path for path in (ROOT / "docs").rglob("*.md") if "results" not in path.parts),
    *(ROOT / "docs" / "gallery").glob("*.py"),
    *(ROOT / "src").rglob("*.py"),
]
MARKUP = re.compile(r"[*_\"'#>`|]+")


def sentences(text):
    """Of paragraphs, list items and cells, without what marks them up."""
    for part in re.split(r"\n\s*\n|\n\s*- |\n\||(?<=[^|]) \| ", text):
        for sentence in re.split(r"(?<=[.;!?])\s+", " ".join(part.split())):
            yield MARKUP.sub("", sentence).strip()


def false_on(pages, claim, is_true):
    """(page, sentence) of each sentence that makes the claim where it is not true."""
    for page in pages:
        # What a former version said stays as it was.
        text = page.read_text(encoding="utf-8").split("\n## 0.1.0")[0]
        for sentence in filter(claim.search, sentences(text)):
            if not is_true(sentence):
                yield page.name, sentence


WITHOUT_BACKPROPAGATION = re.compile(
    r"\b(no|not|nor|neither|never|without|instead of|free of)\b[^,:]{0,25}\bback-?propagat"
    r"|backpropagation[- ]free",
    re.I,
)
# The library has the method's name: "dladmm" is one, "dlADMM" the other. It is the sentence's only
# subject: a verb follows it at once.
OF_DLADMM = re.compile(r"(dlADMM|The papers method)(, which)? (has|needs|does|works|trains)\b")


def of_dladmm(sentence):
    return OF_DLADMM.match(sentence) is not None and "estored" not in sentence


def test_no_backpropagation_is_said_of_the_papers_method_alone():
    assert [*false_on(PAGES, WITHOUT_BACKPROPAGATION, of_dladmm)] == []
    readme = sentences((ROOT / "README.md").read_text(encoding="utf-8"))
    assert len([*filter(WITHOUT_BACKPROPAGATION.search, readme)]) == 1


@pytest.mark.parametrize(
    "false",
    [
        "The package dladmm trains neural networks without backpropagation.",
        "Unlike dlADMM, restored sweeps are trained without backpropagation.",
        "dlADMM is the paper's. Restored sweeps need no backpropagation.",
        "dlADMM has been mended, and restored sweeps never backpropagate.",
        "dlADMM and restored sweeps work without backpropagation.",
        "Our backpropagation-free sweeps are as quick as dlADMM.",
    ],
)
def test_a_false_claim_is_noticed(false, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"dlADMM needs no backpropagation.\n\n{false}\n", encoding="utf-8")
    ((_, found),) = false_on([page], WITHOUT_BACKPROPAGATION, of_dladmm)
    assert found == [*sentences(false)][-1]


def curvature_rows(columns):
    """What docs/evidence.md says of the rows of J, from the code's own numbers."""
    numbers, classes = f"{columns['numbers']:,}", f"{columns['classes']:,}"
    return f"at most {numbers} rows of J for numbers and {classes} for classes"


def test_the_page_of_the_evidence_has_the_numbers_of_the_code():
    page = " ".join((ROOT / "docs" / "evidence.md").read_text(encoding="utf-8").split())
    assert curvature_rows(COLUMNS) in page
    assert curvature_rows(COLUMNS | {"classes": COLUMNS["classes"] + 50}) not in page


NEVER_RISES = re.compile(r"\bnever (rises?|rose|increases?)\b", re.I)


def says_at_what_strength(sentence):
    """L_rho has no strength that a run finds anew; the loss has, and is another one afterwards."""
    return re.search(r"constant strength of l2|L_?rho|L_?ρ", sentence) is not None


def test_that_the_loss_never_rises_is_said_at_a_constant_strength_of_l2():
    written = [page for page in PAGES if page.suffix == ".md"]
    assert [*false_on(written, NEVER_RISES, says_at_what_strength)] == []


def test_a_promise_too_large_is_noticed(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("L_ρ never rises. Over full batches the training loss never rises.\n")
    ((_, found),) = false_on([page], NEVER_RISES, says_at_what_strength)
    assert found == "Over full batches the training loss never rises."


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_words_of_a_certificate_hold_where_the_evidence_raised_the_loss():
    """On these rows the objective of one iteration and that of the next are not the same one."""
    X, y = load_diabetes(return_X_y=True)
    model = DLADMMRegressor((8,), max_iter=30, random_state=0).fit(X, y)
    rose = np.diff(model.history_["lagrangian"]) > 0
    found_anew = np.diff(model.history_["alpha"]) != 0
    assert rose[found_anew].any()
    assert not rose[~found_anew].any()
    words = " ".join(certificate_words(model.certificate_))
    assert "at a constant strength of l2, never rose" in words
    assert "at constant l2" in model.certificate_.summary()
    assert not re.search("loss never rose", words)
