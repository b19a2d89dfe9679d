"""Tables answer at once for all that is asked of a cell, and look as if they were asked for one thing after another."""

from __future__ import annotations

from pathlib import Path
from types import FunctionType

import pytest
from PySide6.QtCore import QAbstractItemModel, QAbstractTableModel
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QApplication, QTableView
from pytestqt.qtbot import QtBot

from ckpt_gui import normalise, open_checkpoint
from ckpt_gui.core.scan import TensorScan, scan
from ckpt_gui.gui.models.compare_model import CompareModel
from ckpt_gui.gui.models.list_model import ListModel
from ckpt_gui.gui.models.scan_model import COLUMNS, ScanModel
from ckpt_gui.gui.models.tree_model import TreeModel
from ckpt_gui.gui.models.values_model import ValuesModel
from ckpt_gui.gui.panels.batch_table import BatchModel
from ckpt_gui.gui.theme import Theme

SAMPLE = Path(__file__).parents[2] / "resources/sample/tiny-llama-compiled.pt"


class OneByOne(ScanModel):
    """Is asked in Qt's own way: for each role of a cell, and for both counts before each cell."""

    multiData = QAbstractTableModel.multiData
    index = QAbstractTableModel.index


def picture(qtbot: QtBot, model: ScanModel, rows: list[TensorScan]) -> QImage:
    """Return what a table shows of the figures of a scan."""
    table = QTableView()
    qtbot.addWidget(table)
    table.setModel(model)
    table.resize(900, 400)
    model.add(rows)
    return table.grab().toImage()


def test_a_table_looks_the_same_however_it_is_asked(qtbot: QtBot, qapp: QApplication) -> None:
    with open_checkpoint(SAMPLE) as source:
        rows = list(scan(normalise(source)).tensors)
    theme = Theme(qapp, "light")
    empty = picture(qtbot, ScanModel(theme), [])
    at_once, one_by_one = (picture(qtbot, model, rows) for model in (ScanModel(theme), OneByOne(theme)))
    assert at_once == one_by_one
    assert at_once != empty


def test_there_is_no_cell_outside(qapp: QApplication) -> None:
    with open_checkpoint(SAMPLE) as source:
        rows = list(scan(normalise(source)).tensors)
    model = ScanModel(Theme(qapp, "light"))
    model.add(rows)
    assert model.index(len(rows) - 1, len(COLUMNS) - 1).isValid()
    for row, column in ((-1, 0), (0, -1), (len(rows), 0), (0, len(COLUMNS))):
        assert not model.index(row, column).isValid()


@pytest.mark.parametrize("kind", [BatchModel, CompareModel, ListModel, ScanModel, TreeModel, ValuesModel])
def test_every_table_answers_at_once(kind: type[QAbstractItemModel]) -> None:
    assert isinstance(kind.multiData, FunctionType), "not Qt's own"
