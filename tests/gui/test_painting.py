"""Painters end with their paint event, even where somebody keeps the frame that made them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from PySide6.QtGui import QPainter, QPixmap
from PySide6.QtWidgets import QApplication

import ckpt_gui.gui
from ckpt_gui.gui.widgets.painting import painting

GUI = Path(ckpt_gui.gui.__file__).parent


def test_a_painter_ends_although_its_error_is_kept(qapp: QApplication) -> None:
    picture, used = QPixmap(4, 4), list[QPainter]()

    def paint() -> None:
        with painting(picture, smooth=True) as painter:
            used.append(painter)
            assert painter.testRenderHint(QPainter.RenderHint.Antialiasing)
            raise RuntimeError("what was to be painted is gone")

    with pytest.raises(RuntimeError) as kept:
        paint()
    assert kept.tb is not None
    assert not used[0].isActive()
    assert not picture.paintingActive()


def test_no_widget_makes_a_painter_that_it_could_leave_behind() -> None:
    made = {p.name for p in GUI.rglob("*.py") if re.search(r"\bQPainter\((?!\))", p.read_text())}
    assert made == {"painting.py", "screenshot.py"}
