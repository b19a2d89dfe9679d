"""The main job by the keyboard alone: open the sample, see what is found, fix, export, verify, open the result."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from ckpt_gui.gui.main_window import MainWindow
from ckpt_gui.gui.panels.finding_card import FindingCard
from ckpt_gui.gui.panels.palette import Palette
from tests.gui.windows import make_window

Key, Held = Qt.Key, Qt.KeyboardModifier
CONTROL_SHIFT = Held.ControlModifier | Held.ShiftModifier


def press(qtbot: QtBot, key: Qt.Key, held: Qt.KeyboardModifier = Held.NoModifier) -> None:
    """Press a key where the focus is: nothing here says which widget gets it."""
    place = QApplication.focusWidget() or QApplication.activeWindow()
    assert place is not None
    qtbot.keyClick(place, key, held)


def tab_to(qtbot: QtBot, wanted: QWidget) -> None:
    """Press Tab until something has the focus."""
    for _ in range(60):
        if QApplication.focusWidget() is wanted:
            return
        press(qtbot, Key.Key_Tab)
    pytest.fail(f"Tab does not come to {wanted.accessibleName()}")


@pytest.fixture
def window(qtbot: QtBot, qapp: QApplication, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MainWindow:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    made = make_window(qtbot, qapp)
    made.activateWindow()
    qtbot.waitUntil(lambda: QApplication.activeWindow() is made)
    return made


def test_from_the_sample_to_a_clean_export(window: MainWindow, qtbot: QtBot, tmp_path: Path) -> None:
    tab_to(qtbot, window.start_page.sample_button)
    with qtbot.waitSignal(window.settled):
        press(qtbot, Key.Key_Return)

    press(qtbot, Key.Key_F, CONTROL_SHIFT)
    card = QApplication.focusWidget()
    assert isinstance(card, FindingCard)
    press(qtbot, Key.Key_Return)
    assert window.tree_panel.only, "the tensors of the finding are shown"
    press(qtbot, Key.Key_F8)
    assert window.tree_panel.view.selected_rows()

    press(qtbot, Key.Key_F7)
    assert window.docks["plan"].isVisible()
    press(qtbot, Key.Key_E, CONTROL_SHIFT)
    dialog = window.commands.dialog
    assert dialog is not None
    qtbot.waitUntil(lambda: QApplication.activeWindow() is dialog)
    qtbot.waitUntil(dialog.export_button.isEnabled)
    press(qtbot, Key.Key_Return)
    qtbot.waitUntil(lambda: dialog.pages.currentWidget() is dialog.result_page)
    assert dialog.result_page.banner.text.startswith("Written and verified")

    tab_to(qtbot, dialog.result_page.open_button)
    with qtbot.waitSignal(window.settled):
        press(qtbot, Key.Key_Return)
    snapshot = window.session.snapshot
    assert snapshot is not None
    assert snapshot.source.path == str(tmp_path / "tiny-llama-compiled-hf")
    assert snapshot.plan.findings == ()


def test_the_palette_leads_to_everything(window: MainWindow, qtbot: QtBot) -> None:
    press(qtbot, Key.Key_P, CONTROL_SHIFT)
    qtbot.waitUntil(lambda: isinstance(QApplication.activeWindow(), Palette))
    for letter in (Key.Key_S, Key.Key_A, Key.Key_M, Key.Key_P, Key.Key_L, Key.Key_E):
        place = QApplication.focusWidget()
        assert place is not None
        qtbot.keyClick(place, letter)
    with qtbot.waitSignal(window.settled):
        press(qtbot, Key.Key_Return)
    assert window.session.snapshot is not None
