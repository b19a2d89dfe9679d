"""A window that is painted before it is whole: what it shows, what it answers to at once, and how it becomes whole."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QDialog
from pytestqt.qtbot import QtBot

from ckpt_gui.desktop.instance import Request
from ckpt_gui.desktop.resources import SAMPLE, resource
from ckpt_gui.gui import window_parts
from ckpt_gui.gui.core_imports import MODULES, core_imports
from ckpt_gui.gui.main_window import MainWindow
from ckpt_gui.gui.settings import Settings
from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.windows import Windows

# What a window imports until it is painted, printed as names.
PAINT = """
import sys
from ckpt_gui.gui import app as gui
app = gui.application()
windows = gui.Windows(gui.Settings(keeps=False), gui.Theme(app, "light"))
window = gui.MainWindow(gui.Settings(keeps=False), windows._theme, whole=False)
window.show()
window.grab()
print(*(name for name in sys.modules if name.startswith(("ckpt_gui", "PySide6", "numpy"))))
"""


def shell(qtbot: QtBot, app: QApplication) -> MainWindow:
    """Return a window of which only the start page and the menus are made."""
    window = MainWindow(Settings(), Theme(app, "light"), whole=False)
    window.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose, False)  # qtbot deletes it
    qtbot.addWidget(window)
    return window


def test_little_is_imported_before_the_first_picture() -> None:
    done = subprocess.run([sys.executable, "-c", PAINT], capture_output=True, text=True, check=True, timeout=120)
    names = set(done.stdout.splitlines()[-1].split())
    own = {name for name in names if name.startswith("ckpt_gui.core.")}
    assert "ckpt_gui.gui.panels.start_page" in names
    assert not {"numpy", "PySide6.QtNetwork", "PySide6.QtOpenGL", "ckpt_gui.gui.session"} & names
    assert not own & {f"ckpt_gui.core.{name}" for name in (*MODULES, "formats", "passes", "families", "plan")}


def test_a_window_becomes_whole_after_its_first_picture(qtbot: QtBot, qapp: QApplication) -> None:
    window = shell(qtbot, qapp)
    assert not window.is_whole
    window.show()
    assert window.pages.currentWidget() is window.start_page
    with qtbot.waitSignal(window.completed):
        window.complete_later()
    assert window.is_whole
    assert not window.is_broken
    assert window.pages.currentWidget() is window.start_page
    assert window.centralWidget().isVisible()
    assert not window.tool_bar.isVisible()
    assert not core_imports().is_alive()


@pytest.mark.parametrize("name", ["about", "explain", "shortcuts"])
def test_what_is_asked_for_before_is_done_at_once(name: str, qtbot: QtBot, qapp: QApplication) -> None:
    window = shell(qtbot, qapp)
    window.show()
    window.actions_by_id[name].trigger()
    assert window.is_whole
    assert [dialog for dialog in window.findChildren(QDialog) if dialog.isVisible()]


def test_what_is_dropped_before_is_answered_at_once(qtbot: QtBot, qapp: QApplication) -> None:
    window = shell(qtbot, qapp)
    window.drops.refused.emit()
    assert "no file of this computer" in window.notices.text("drop")


def test_a_window_that_is_closed_before_it_is_whole_just_closes(qtbot: QtBot, qapp: QApplication) -> None:
    window = shell(qtbot, qapp)
    window.show()
    assert window.close()
    assert not window.is_whole


def test_a_path_is_named_at_once_and_opened_as_soon_as_the_window_is_whole(qtbot: QtBot, qapp: QApplication) -> None:
    windows = Windows(Settings(), Theme(qapp, "light"))
    window = windows.take(Request((str(resource(SAMPLE)),), filter="norm"), whole=False)
    assert isinstance(window, MainWindow)
    assert window.pages.currentWidget() is window.loading_panel
    assert Path(SAMPLE).name in window.loading_panel.title.text()
    with qtbot.waitSignal(window.settled):
        pass
    assert window.session.snapshot is not None
    assert window.tree_panel.filter_box.text() == "norm"
    windows.close_all()


def test_an_error_before_is_told_when_the_window_is_whole(qtbot: QtBot, qapp: QApplication) -> None:
    windows = Windows(Settings(), Theme(qapp, "light"))
    window = windows.add(whole=False)
    windows.show_trouble(ValueError("odd"))
    window.complete()
    assert "odd" in window.notices.text("trouble")
    assert windows.failure is None
    windows.close_all()


def test_a_part_that_can_not_be_made_ends_the_program(
    qtbot: QtBot, qapp: QApplication, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_window: MainWindow) -> None:
        raise ImportError("no such library")

    monkeypatch.setattr(window_parts, "_make_session", fail)
    windows = Windows(Settings(), Theme(qapp, "light"))
    window = windows.add(whole=False)
    with pytest.raises(ImportError) as raised:
        window.complete()
    assert window.is_broken
    monkeypatch.setattr(windows, "end", windows.close_all)  # the program of the tests goes on
    windows.show_trouble(raised.value)
    assert windows.failure is raised.value
    assert windows.open == []
