"""Walks the table of docs/inputs.md: every row has a scenario, and every scenario a row."""

import errno
import gzip
import io
import os
import re
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import QUICK, run

pytestmark = pytest.mark.float32

DOCUMENT = Path(__file__).parents[2] / "docs" / "inputs.md"
ROW = re.compile(r"^\| ([a-z-]+) \| .* \| (refused|continues) \| `(.*)` \|$")
TABLE = {m[1]: (m[2], m[3]) for m in map(ROW.match, DOCUMENT.read_text().splitlines()) if m}

HEADER = "width,colour,species\n"
CELLS = [(f"{i % 7}.5", ("red", "blue")[i % 2], ("ant", "bee")[i // 2 % 2]) for i in range(40)]


def as_csv(cells, header=HEADER):
    return header + "".join(",".join(row) + "\n" for row in cells)


GOOD = as_csv(CELLS)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    (folder / "good.csv").write_text(GOOD)
    ran = run("fit", folder / "good.csv", "--target", "species", "--out", folder / "m", *QUICK)
    assert ran.code == 0, ran.err
    return folder / "m"


def fits(folder, text, target="species", out="out", name="table.csv"):
    (folder / name).write_text(text, encoding="utf-8")
    return ["fit", folder / name, "--target", target, "--out", folder / out, *QUICK]


def fit_of(folder, name, target="species"):
    return ["fit", folder / name, "--target", target, "--out", folder / "out", *QUICK]


def predicts(folder, model, text):
    (folder / "table.csv").write_text(text)
    return ["predict", model, folder / "table.csv", "--out", folder / "out.csv"]


def missing_target_column(folder, model, monkeypatch):
    return fits(folder, GOOD, target="specis")


def single_class(folder, model, monkeypatch):
    return fits(folder, as_csv([(w, c, "ant") for w, c, _ in CELLS]))


def missing_target_cells(folder, model, monkeypatch):
    return fits(folder, as_csv([*CELLS[:-2], *((w, c, "") for w, c, _ in CELLS[-2:])]))


def number_or_class(folder, model, monkeypatch):
    cells = [(f"${i}.5", c, s) for i, (_, c, s) in enumerate(CELLS, 5)]
    return fits(folder, as_csv([*cells[:-1], ("4.5 kg", "red", "ant")]), target="width")


def names_as_target(folder, model, monkeypatch):
    names = (f"{a}{b}" for a in "abcdefgh" for b in "vwxyz")
    return fits(folder, as_csv([(w, c, next(names)) for w, c, _ in CELLS]))


def drop_unknown(folder, model, monkeypatch):
    return [*fits(folder, GOOD), "--drop", "widht"]


def empty_archive(folder, model, monkeypatch):
    with zipfile.ZipFile(folder / "table.csv.zip", "w") as archive:
        archive.writestr("one.csv", GOOD)
        archive.writestr("two.csv", GOOD)
    return fit_of(folder, "table.csv.zip")


def semicolons(folder, model, monkeypatch):
    return fits(folder, GOOD.replace(",", ";").replace(".", ","))


def western_encoding(folder, model, monkeypatch):
    (folder / "table.csv").write_bytes(GOOD.replace("blue", "grün").encode("latin-1"))
    return fit_of(folder, "table.csv")


def wide_encoding(folder, model, monkeypatch):
    (folder / "table.csv").write_bytes(GOOD.encode("utf-16"))
    return fit_of(folder, "table.csv")


def compressed(folder, model, monkeypatch):
    (folder / "table.csv.gz").write_bytes(gzip.compress(GOOD.encode()))
    return fit_of(folder, "table.csv.gz")


def excel(folder, model, monkeypatch):
    frame = pd.read_csv(io.StringIO(GOOD))
    with pd.ExcelWriter(folder / "table.xlsx") as book:
        frame.to_excel(book, sheet_name="ants", index=False)
        frame.to_excel(book, sheet_name="bees", index=False)
    return fit_of(folder, "table.xlsx")


def units(folder, model, monkeypatch):
    return fits(folder, as_csv([(f'"$1,00{w}"', c, s) for w, c, s in CELLS]))


def money_as_target(folder, model, monkeypatch):
    return fits(folder, as_csv([(f'"$1,00{w}"', c, s) for w, c, s in CELLS]), target="width")


def stray_marks(folder, model, monkeypatch):
    return fits(folder, as_csv([("?", "red", "ant"), *CELLS[1:-1], ("?", "red", "bee")]))


def month_names(folder, model, monkeypatch):
    cells = [(f"{1 + i % 28:02} Apr 2020", *row) for i, row in enumerate(CELLS)]
    return fits(folder, as_csv(cells, "day," + HEADER))


def id_column(folder, model, monkeypatch):
    return fits(folder, as_csv([(str(7 + i), *row) for i, row in enumerate(CELLS)], "id," + HEADER))


def dropped_column(folder, model, monkeypatch):
    return [*id_column(folder, model, monkeypatch), "--drop", "id"]


def many_categories(folder, model, monkeypatch):
    names = [f"{a}{b}" for a in "abcdefghijkl" for b in "mnopqrstuvw"]
    return fits(folder, as_csv([("1.5", name, CELLS[i % 40][2]) for i, name in enumerate(names)]))


def few_rows(folder, model, monkeypatch):
    return fits(folder, as_csv(CELLS[:8]))


def arrays_that_do_not_fit(folder, model, monkeypatch):
    np.save(folder / "x.npy", np.ones((4, 2)))
    np.save(folder / "y.npy", np.ones(3))
    return ["fit", folder / "x.npy", "--target", folder / "y.npy", "--out", folder / "out"]


def checkpoint_in_use(folder, model, monkeypatch):
    keep = ["--checkpoint", folder / "run", "--checkpoint-every", "2"]
    ran = run(*fits(folder, GOOD), *keep)
    assert ran.code == 0, ran.err
    (folder / "out").unlink()
    return [*fits(folder, GOOD), *keep]


def resume_from_nowhere(folder, model, monkeypatch):
    return [*fits(folder, GOOD), "--resume"]


def missing_column(folder, model, monkeypatch):
    return predicts(folder, model, "colour\nred\n")


def text_for_numbers(folder, model, monkeypatch):
    return predicts(folder, model, "width,colour\n,red\nwide,red\n")


def duplicate_columns(folder, model, monkeypatch):
    return fits(folder, "width,width,species\n1,2,ant\n3,4,bee\n")


def zero_rows(folder, model, monkeypatch):
    return fits(folder, HEADER)


def infinite_values(folder, model, monkeypatch):
    return fits(folder, as_csv([("inf", "red", "ant"), *CELLS[1:]]))


def unreadable_table(folder, model, monkeypatch):
    return fits(folder, GOOD, name="table.parquet")


def unreadable_model(folder, model, monkeypatch):
    cut = folder / "cut"
    cut.write_bytes(model.read_bytes()[:-10])
    return predicts(folder, cut, GOOD)


def unwritable_output(folder, model, monkeypatch):
    return fits(folder, GOOD, out="nowhere/out")


def overwrites_input(folder, model, monkeypatch):
    return fits(folder, GOOD, out="table.csv")


def disk_full(folder, model, monkeypatch):
    def no_space(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", no_space)
    return fits(folder, GOOD)


def reordered_columns(folder, model, monkeypatch):
    return predicts(folder, model, "colour,width\nred,1\nblue,2\n")


def extra_column(folder, model, monkeypatch):
    return predicts(folder, model, "width,note,colour\n1,hi,red\n2,ho,blue\n")


def unseen_category(folder, model, monkeypatch):
    return predicts(folder, model, "width,colour\n1,mauve\n2,blue\n")


def constant_column(folder, model, monkeypatch):
    return fits(folder, as_csv([("1.5", c, s) for _, c, s in CELLS]))


def leading_zeros(folder, model, monkeypatch):
    return fits(folder, as_csv([(f"{100 + i % 7:05d}", c, s) for i, (_, c, s) in enumerate(CELLS)]))


def lookalikes(folder, model, monkeypatch):
    return fits(folder, as_csv([*CELLS, ("1.5", "red", "Ant"), ("2.5", "blue", "Ant")]))


def one_row(folder, model, monkeypatch):
    return predicts(folder, model, "width,colour\n1,blue\n")


def rare_class(folder, model, monkeypatch):
    return fits(folder, as_csv([*CELLS[:-1], ("1", "red", "rare")]))


SCENARIOS = {
    scenario.__name__.replace("_", "-"): scenario
    for scenario in (
        missing_target_column,
        single_class,
        missing_target_cells,
        number_or_class,
        names_as_target,
        drop_unknown,
        empty_archive,
        semicolons,
        western_encoding,
        wide_encoding,
        compressed,
        excel,
        units,
        money_as_target,
        stray_marks,
        month_names,
        id_column,
        dropped_column,
        many_categories,
        few_rows,
        missing_column,
        text_for_numbers,
        duplicate_columns,
        zero_rows,
        infinite_values,
        unreadable_table,
        arrays_that_do_not_fit,
        checkpoint_in_use,
        resume_from_nowhere,
        unreadable_model,
        unwritable_output,
        overwrites_input,
        disk_full,
        reordered_columns,
        extra_column,
        unseen_category,
        constant_column,
        leading_zeros,
        lookalikes,
        one_row,
        rare_class,
    )
}


def test_every_row_has_a_scenario_and_every_scenario_a_row():
    assert set(TABLE) == set(SCENARIOS)
    assert {outcome for outcome, _ in TABLE.values()} == {"refused", "continues"}


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("row", sorted(TABLE))
def test_the_table_holds(row, tmp_path, model, monkeypatch):
    outcome, words = TABLE[row]
    for older in ("out", "out.csv"):
        (tmp_path / older).write_text("an older file")
    arguments = SCENARIOS[row](tmp_path, model, monkeypatch)
    before = contents(tmp_path)
    ran = run(*arguments)
    assert words in ran.err + ran.out
    assert "Traceback" not in ran.err
    after = contents(tmp_path)
    if outcome == "refused":
        assert ran.code == 2
        assert re.fullmatch(r"dladmm: [^\n]+\n", ran.err)
        assert after == before
    else:
        assert ran.code == 0
        assert all(line.startswith("dladmm: ") for line in ran.err.splitlines())
        changed = [path.name for path in after if after[path] != before.get(path)]
        assert changed == ["out" if arguments[0] == "fit" else "out.csv"]
