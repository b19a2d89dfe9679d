"""The page of values: true ones, of any part, of tensors of any size, with tokens, copied and saved."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import QItemSelection, QItemSelectionModel, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QAbstractItemModelTester
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot
from safetensors.numpy import save_file

from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.values import parse_index
from ckpt_gui.gui.jobs import JobManager
from ckpt_gui.gui.models.values_grid import TILE, Grid
from ckpt_gui.gui.models.values_model import ValuesModel
from ckpt_gui.gui.panels.values_page import ValuesPage
from ckpt_gui.gui.theme import Theme
from tests.gui.windows import window_on

CUBE = np.arange(3 * 50 * 40, dtype=np.float32).reshape(3, 50, 40)
ODD = np.array([[np.nan, np.inf, -np.inf], [0.0, -0.0, 1 / 3]], dtype=np.float32)
SAMPLE = Path(__file__).parents[2] / "resources/sample"
FLAGS = np.array([True, False, True])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_file({"cube": CUBE, "odd": ODD, "flags": FLAGS}, tmp_path / "model.safetensors")
    return tmp_path


def open_page(qtbot: QtBot, app: QApplication, path: Path) -> ValuesPage:
    window = window_on(qtbot, app, path, "values")
    made = window.page_tabs.page("values")
    assert isinstance(made, ValuesPage)
    return made


@pytest.fixture
def page(qtbot: QtBot, qapp: QApplication, folder: Path) -> ValuesPage:
    return open_page(qtbot, qapp, folder)


def choose(page: ValuesPage, key: str) -> None:
    snapshot = page._session.snapshot
    assert snapshot is not None
    page.choice.choose(next(ref for ref in snapshot.source.refs if ref.key == key))


def cell(page: ValuesPage, row: int, column: int) -> str:
    return str(page.model.data(page.model.index(row, column)))


def wait_for(qtbot: QtBot, page: ValuesPage, row: int, column: int) -> str:
    qtbot.waitUntil(lambda: cell(page, row, column) != "…")
    return cell(page, row, column)


def test_nothing_is_chosen(page: ValuesPage) -> None:
    assert page.choice.ref is None  # as nothing is selected in the tree
    assert not page.table.isVisible()
    assert "Select a tensor" in page.message.text()


def test_values_and_words_for_odd_ones(page: ValuesPage, qtbot: QtBot) -> None:
    choose(page, "odd")
    wait_for(qtbot, page, 0, 0)
    assert [cell(page, 0, n) for n in range(3)] == ["NaN", "+Inf", "−Inf"]
    assert [cell(page, 1, n) for n in range(3)] == ["0", "−0", "0.333333"]
    assert page.note.text() == "fp32, 2 × 3 · shown: [0:2, 0:3]"
    red = page.model.data(page.model.index(0, 0), Qt.ItemDataRole.ForegroundRole)
    assert red.name() == page.model._theme.color("red").name()


def test_a_part_of_three_dimensions(page: ValuesPage, qtbot: QtBot) -> None:
    choose(page, "cube")
    assert (page.model.rowCount(), page.model.columnCount()) == (150, 40)
    assert wait_for(qtbot, page, 149, 39) == "5999"
    page.index.setText("[1:, 10:50:20, ::13]")
    qtbot.keyClick(page.index, Qt.Key.Key_Return)
    wanted = CUBE[1:, 10:50:20, ::13].reshape(-1, 4)
    assert (page.model.rowCount(), page.model.columnCount()) == wanted.shape
    wait_for(qtbot, page, 0, 0)
    assert [[float(cell(page, r, c)) for c in range(4)] for r in range(4)] == wanted.tolist()
    assert page.model.headerData(3, Qt.Orientation.Vertical) == "2, 30"
    assert page.model.headerData(3, Qt.Orientation.Horizontal) == "39"


@pytest.mark.parametrize("index", ["[2, :, 7]", "[..., 5]", "[0, 3:9]", "[2, 4, 6]", "[:2, 49]", "[::2, 1:4, 5:]"])
def test_any_index_reads_what_numpy_says(folder: Path, index: str) -> None:
    with open_checkpoint(folder) as source:
        ref = next(ref for ref in source.refs if ref.key == "cube")
        grid = Grid(ref, parse_index(index, ref.shape))
        values, note = grid.read(source, range(grid.rows), range(grid.columns))
    wanted = eval(f"CUBE{index}", {"CUBE": CUBE})  # the index is one of those above
    wanted = np.atleast_1d(wanted)
    assert np.array_equal(values, wanted.reshape(-1, wanted.shape[-1] if wanted.ndim > 1 else 1))
    assert note == ""


def test_tiles_meet(folder: Path) -> None:
    with open_checkpoint(folder) as source:
        ref = next(ref for ref in source.refs if ref.key == "cube")
        grid = Grid(ref, parse_index("", ref.shape))
        rows, columns = range(TILE[0], 2 * TILE[0]), range(TILE[1], 40)
        values, _ = grid.read(source, rows, columns)
    assert np.array_equal(values, CUBE.reshape(150, 40)[rows.start : rows.stop, columns.start : columns.stop])


def test_a_bad_index_says_why(page: ValuesPage, qtbot: QtBot) -> None:
    choose(page, "cube")
    page.index.setText("[9, 1]")
    qtbot.keyClick(page.index, Qt.Key.Key_Return)
    assert "asks for 9 of a dimension of 3" in page.message.text()
    assert not page.table.isVisible()
    page.index.setText("[2]")
    qtbot.keyClick(page.index, Qt.Key.Key_Return)
    assert page.table.isVisible()
    assert page.message.text() == ""


def test_tokens_name_the_rows(qtbot: QtBot, qapp: QApplication, tmp_path: Path) -> None:
    shutil.copytree(SAMPLE, tmp_path, dirs_exist_ok=True)
    words = {f"Ġword{n}": n for n in range(256)}
    (tmp_path / "tokenizer.json").write_text(json.dumps({"model": {"vocab": words}}))
    page = open_page(qtbot, qapp, tmp_path / "tiny-llama-compiled.pt")
    choose(page, "_orig_mod.tok_embeddings.weight")
    qtbot.waitUntil(lambda: page.model.vocabulary is not None)
    assert page.model.headerData(7, Qt.Orientation.Vertical) == "7   word7"
    assert "rows named by tokenizer.json" in page.note.text()
    for typed, row in ((" word120", 120), ("Ġword3", 3), ("55", 55), ("-1", 255)):
        page.token.setText(typed)
        qtbot.keyClick(page.token, Qt.Key.Key_Return)
        assert page.table.currentIndex().row() == row
    page.token.setText("nowhere")
    qtbot.keyClick(page.token, Qt.Key.Key_Return)
    assert "There is no row “nowhere”" in page.message.text()
    page.index.setText("[100:200]")
    qtbot.keyClick(page.index, Qt.Key.Key_Return)
    assert page.model.headerData(0, Qt.Orientation.Vertical) == "100   word100"


def test_copying_the_selection(page: ValuesPage, qtbot: QtBot) -> None:
    choose(page, "cube")
    first, last = page.model.index(63, 30), page.model.index(65, 33)  # over the edges of tiles
    selection = QItemSelection(first, last)
    page.table.selectionModel().select(selection, QItemSelectionModel.SelectionFlag.ClearAndSelect)
    QGuiApplication.clipboard().clear()
    page.copy()
    qtbot.waitUntil(lambda: bool(QGuiApplication.clipboard().text()))
    rows = [list(map(float, line.split("\t"))) for line in QGuiApplication.clipboard().text().split("\n")]
    assert rows == CUBE.reshape(150, 40)[63:66, 30:34].tolist()


def test_saving_as_csv(page: ValuesPage, qtbot: QtBot, tmp_path: Path) -> None:
    choose(page, "odd")
    page.save(str(tmp_path / "odd.csv"))
    qtbot.waitUntil(lambda: "Saved 6 values" in page.message.text())
    lines = (tmp_path / "odd.csv").read_text().splitlines()
    assert lines == ["dim 0,0,1,2", "0,nan,inf,-inf", f"1,0.0,-0.0,{float(np.float32(1 / 3))!r}"]
    page.save(str(tmp_path / "no" / "such" / "folder.csv"))
    qtbot.waitUntil(lambda: page.message.text().startswith("Not saved: "))


def test_bools(page: ValuesPage, qtbot: QtBot) -> None:
    choose(page, "flags")
    wait_for(qtbot, page, 0, 0)
    assert [cell(page, n, 0) for n in range(3)] == ["True", "False", "True"]


def test_the_model_keeps_qt_s_rules(qtbot: QtBot, qapp: QApplication, folder: Path) -> None:
    jobs = JobManager()
    with open_checkpoint(folder) as source:
        model = ValuesModel(jobs, Theme(qapp, "light"))
        QAbstractItemModelTester(model, QAbstractItemModelTester.FailureReportingMode.Fatal)
        ref = next(ref for ref in source.refs if ref.key == "cube")
        model.show_grid(source, Grid(ref, parse_index("", ref.shape)))
        qtbot.waitUntil(lambda: model.data(model.index(0, 0)) == "0")
        model.show_grid(None, None)
        assert model.rowCount() == 0
        jobs.shutdown()


def test_typing_a_key_turns_to_it(page: ValuesPage, qtbot: QtBot) -> None:
    page.choice.box.setFocus()
    page.choice._offer()
    page.choice.box.setText("odd")
    qtbot.keyClick(page.choice.box, Qt.Key.Key_Return)
    assert page.choice.ref is not None
    assert page.choice.ref.key == "odd"
    page.choice.box.setText("no such key")
    qtbot.keyClick(page.choice.box, Qt.Key.Key_Return)
    assert page.choice.box.text() == "odd"
