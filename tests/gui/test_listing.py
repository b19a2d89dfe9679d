"""A large checkpoint is listed before it is understood: what is shown meanwhile, what stays, and how it is stopped."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from ckpt_gui.core.formats import folder_opening
from ckpt_gui.desktop.resources import SAMPLE, resource
from ckpt_gui.gui import snapshot as snapshot_module
from ckpt_gui.gui.main_window import MainWindow
from ckpt_gui.gui.models.tree_columns import Column
from tests.builders import index_bytes, safetensors_bytes
from tests.gui import patience
from tests.gui.windows import make_window

KEY = "norm.weight"


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Let every checkpoint count as large, and hold up the plan until the gate is opened."""
    opened, understand = threading.Event(), snapshot_module.understand

    def held(*words: Any, **more: Any) -> Any:
        assert opened.wait(patience.SECONDS)
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


TENSORS = 120  # more rows than a window shows


@pytest.fixture
def sharded(tmp_path: Path) -> Path:
    """A model of two shards with an index, whose order is not that of the files."""
    shards: dict[str, dict[str, np.ndarray]] = {f"model-0000{n}-of-00002.safetensors": {} for n in (1, 2)}
    for number in range(TENSORS):
        name = f"model-0000{1 + number // 70}-of-00002.safetensors"
        shards[name][f"model.layers.{number}.mlp.up_proj.weight"] = np.full((24, 16), number, np.float32)
    for name, tensors in shards.items():
        (tmp_path / name).write_bytes(safetensors_bytes(tensors))
    places = {key: name for name, tensors in shards.items() for key in tensors}
    (tmp_path / "model.safetensors.index.json").write_bytes(index_bytes(dict(sorted(places.items()))))
    return tmp_path


@pytest.fixture
def shut(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Hold up the shards until this is set."""
    opened, open_part = threading.Event(), folder_opening.open_part

    def held(*words: Any, **more: Any) -> Any:
        assert opened.wait(patience.SECONDS)
        return open_part(*words, **more)

    monkeypatch.setattr(folder_opening, "open_part", held)
    yield opened
    opened.set()


def indexed(qtbot: QtBot, app: QApplication, folder: Path) -> tuple[MainWindow, list[str]]:
    """Return a window that shows what an index tells, and what it is told of from now on."""
    window = make_window(qtbot, app)
    told: list[str] = []
    window.session.listed.connect(lambda index: told.append("index" if index.rows[0].shape is None else "headers"))
    window.session.changed.connect(lambda _: told.append("plan"))
    window.open_path(str(folder))
    qtbot.waitUntil(lambda: window.session.listing is not None)
    return window, told


def test_the_index_comes_first_then_the_headers_then_the_plan(
    qtbot: QtBot, qapp: QApplication, gate: threading.Event, shut: threading.Event, sharded: Path
) -> None:
    window, told = indexed(qtbot, qapp, sharded)
    panel = window.tree_panel
    assert window.pages.currentWidget() is window.page_tabs
    panel.set_mode("flat")
    assert panel.bar.chips["listed"].count == TENSORS
    texts = [panel.model.index(0, column).data() for column in Column]
    assert texts[Column.KEY] == "model.layers.0.mlp.up_proj.weight"
    assert texts[Column.SHARD] == "model-00001-of-00002.safetensors"
    assert [texts[column] for column in (Column.SHAPE, Column.DTYPE, Column.SIZE, Column.EXPECTED)] == [""] * 4
    panel.set_mode("families")
    family = [panel.model.index(0, column).data() for column in Column]
    assert family[Column.SHARD] == "2 files"
    assert [family[column] for column in (Column.SHAPE, Column.DTYPE, Column.SIZE)] == [""] * 3
    panel.set_mode("flat")
    shut.set()
    qtbot.waitUntil(lambda: told == ["index", "headers"])
    assert panel.model.index(0, Column.SHAPE).data() == "24 × 16"
    assert panel.model.index(0, Column.DTYPE).data() == "fp32"
    gate.set()
    qtbot.waitUntil(lambda: window.session.snapshot is not None)
    assert told == ["index", "headers", "plan"]


def test_selection_filter_and_place_stay_from_stage_to_stage(
    qtbot: QtBot, qapp: QApplication, gate: threading.Event, shut: threading.Event, sharded: Path
) -> None:
    window, told = indexed(qtbot, qapp, sharded)
    panel = window.tree_panel
    panel.set_mode("flat")
    panel.set_filter("up_proj")
    assert panel.select_key("model.layers.77.mlp.up_proj.weight")
    assert panel.view.current_number() is not None
    bar = panel.view.list.verticalScrollBar()
    bar.setValue(bar.maximum() // 2)

    def seen() -> tuple[str, str, str]:
        row = panel.selection._row
        top = panel.view.list.keys.row(next(panel.view.list.in_sight()))
        assert row is not None
        assert top is not None
        return row.path, top.path, panel.filter_box.text()

    before = seen()
    shut.set()
    qtbot.waitUntil(lambda: told == ["index", "headers"])
    assert seen() == before
    gate.set()
    qtbot.waitUntil(lambda: window.session.snapshot is not None)
    assert seen() == before


def test_opening_is_cancelled_between_the_stages(
    qtbot: QtBot, qapp: QApplication, gate: threading.Event, shut: threading.Event, sharded: Path
) -> None:
    window, told = indexed(qtbot, qapp, sharded)
    window.notices.by_name["listed"].buttons["Cancel"].click()
    shut.set()
    gate.set()
    qtbot.waitUntil(lambda: window.pages.currentWidget() is window.start_page)
    assert told == ["index"]
    assert window.session.listing is None
    assert window.tree_panel.model.rowCount() == 0


def test_few_tensors_are_shown_once(qtbot: QtBot, qapp: QApplication, sharded: Path) -> None:
    window = make_window(qtbot, qapp)
    told: list[object] = []
    window.session.listed.connect(told.append)
    window.open_path(str(sharded))
    qtbot.waitUntil(lambda: window.session.snapshot is not None)
    assert told == []
