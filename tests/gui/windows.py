"""Helpers for tests of the window."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from ckpt_gui.core.export import Target
from ckpt_gui.core.plan import Evidence
from ckpt_gui.core.source import Source
from ckpt_gui.gui.decisions import Decisions
from ckpt_gui.gui.main_window import MainWindow
from ckpt_gui.gui.settings import Settings
from ckpt_gui.gui.snapshot import Snapshot, make_snapshot
from ckpt_gui.gui.theme import Theme


def snapshot_of(source: Source, layout: str = "hf") -> Snapshot:
    """Return what a window would show of a source."""
    return make_snapshot(source, Decisions(target=Target(layout=layout)), Evidence())


def make_window(qtbot: QtBot, app: QApplication, source: Source | None = None, *, layout: str = "hf") -> MainWindow:
    """Return a shown window, with a source open if there is one."""
    window = MainWindow(Settings(), Theme(app, "light"))
    window.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose, False)  # qtbot deletes it
    window.plan_keeper.ask = lambda _window, _name: "leave"
    qtbot.addWidget(window)
    window.show()
    if source is not None:
        window.session.publish(snapshot_of(source, layout))
        settle(qtbot, window)
    return window


def settle(qtbot: QtBot, window: MainWindow) -> None:
    """Wait until everything around an opened checkpoint is there."""
    qtbot.waitUntil(lambda: window.docks["checkpoint"].toggleViewAction().isEnabled())


def window_on(qtbot: QtBot, app: QApplication, path: str | Path, page: str) -> MainWindow:
    """Return a shown window that has opened a path and turned to a page; keys reach it."""
    window = make_window(qtbot, app)
    qtbot.waitUntil(window.isActiveWindow)
    window.open_path(str(path))
    settle(qtbot, window)
    window.page_tabs.show_page(page)
    return window
