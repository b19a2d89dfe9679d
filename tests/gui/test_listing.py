"""A large checkpoint is listed before it is understood: what is shown meanwhile, what stays, and how it is stopped."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from ckpt_gui.desktop.resources import SAMPLE, resource
from ckpt_gui.gui import snapshot as snapshot_module
from ckpt_gui.gui.main_window import MainWindow
from tests.gui.windows import make_window

KEY = "norm.weight"


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Let every checkpoint count as large, and hold up the plan until the gate is opened."""
    opened, understand = threading.Event(), snapshot_module.understand

    def held(*words: Any, **more: Any) -> Any:
        assert opened.wait(20)
        return understand(*words, **more)

    monkeypatch.setattr(snapshot_module, "LISTED_FROM", 1)
    monkeypatch.setattr(snapshot_module, "understand", held)
    yield opened
    opened.set()


def listed(qtbot: QtBot, app: QApplication) -> MainWindow:
    """Return a window that lists a checkpoint of which no more is known yet."""
    window = make_window(qtbot, app)
    window.open_path(str(resource(SAMPLE)))
    qtbot.waitUntil(lambda: window.session.listing is not None)
    return window


def test_tensors_are_shown_before_the_plan(qtbot: QtBot, qapp: QApplication, gate: threading.Event) -> None:
    window = listed(qtbot, qapp)
    index = window.session.listing
    assert index is not None
    assert window.session.snapshot is None
    assert window.pages.currentWidget() is window.page_tabs
    assert window.tree_panel.selection.index is index
    assert {row.state for row in index.rows} == {"listed"}
    assert window.tree_panel.bar.chips["listed"].count == len(index.rows)
    assert "still being worked out" in window.notices.text("listed")
    assert not window.actions_by_id["export"].isEnabled()
    assert not window.docks["plan"].isVisible()
    gate.set()
    qtbot.waitUntil(lambda: window.session.snapshot is not None)
    assert window.session.listing is None
    assert window.notices.text("listed") == ""
    assert window.actions_by_id["export"].isEnabled()
    assert window.docks["plan"].isVisible()
    assert not window.tree_panel.bar.chips["listed"].isVisible()
    assert window.settings.recents()[0].endswith(SAMPLE.rpartition("/")[2])


def test_filter_and_selection_stay(qtbot: QtBot, qapp: QApplication, gate: threading.Event) -> None:
    window = listed(qtbot, qapp)
    assert window.session.listing is not None
    key = [row.path for row in window.session.listing.rows if row.path.endswith(KEY)][-1]
    window.tree_panel.set_filter("norm")
    assert window.tree_panel.select_key(key)
    assert window.session.current is None  # nothing can be done with it yet
    gate.set()
    qtbot.waitUntil(lambda: window.session.snapshot is not None)
    assert window.tree_panel.filter_box.text() == "norm"
    row = window.inspector_panel._row
    assert row is not None
    assert row.path == key
    assert row.state != "listed"
    assert window.session.current is row.ref


def test_a_listing_can_be_cancelled(qtbot: QtBot, qapp: QApplication, gate: threading.Event) -> None:
    window = listed(qtbot, qapp)
    window.notices.by_name["listed"].buttons["Cancel"].click()
    gate.set()
    qtbot.waitUntil(lambda: window.pages.currentWidget() is window.start_page)
    assert window.session.listing is None
    assert window.notices.text("listed") == ""
    assert window.tree_panel.model.rowCount() == 0
