"""The scan page: what is wrong is found and pointed at, rows come and sort, and a scan can be stopped."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QAbstractItemModelTester
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot
from safetensors.numpy import load_file, save_file

from ckpt_gui import dataclasses, normalise, open_checkpoint, write
from ckpt_gui.core.errors import Cancelled
from ckpt_gui.core.scan import scan
from ckpt_gui.gui.main_window import MainWindow
from ckpt_gui.gui.models.scan_model import COLUMNS, ScanModel
from ckpt_gui.gui.panels import scan_page
from ckpt_gui.gui.panels.scan_page import ScanPage
from ckpt_gui.gui.theme import Theme
from tests.gui.windows import window_on

SAMPLE = Path(__file__).parents[2] / "resources/sample/tiny-llama-compiled.pt"
POISONED, DEAD = "model.layers.1.mlp.up_proj.weight", "model.layers.0.self_attn.o_proj.weight"


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model in fp32 with one NaN and one row of zeros."""
    out = tmp_path / "poisoned"
    with open_checkpoint(SAMPLE) as source:
        write(normalise(source), out, layout="hf", dtype="fp32")
    tensors = load_file(out / "model.safetensors")
    tensors[POISONED] = tensors[POISONED].copy()
    tensors[POISONED][3, 5] = np.nan
    tensors[DEAD] = tensors[DEAD].copy()
    tensors[DEAD][7] = 0
    save_file(tensors, out / "model.safetensors", metadata={"format": "pt"})
    return out


@pytest.fixture
def window(qtbot: QtBot, qapp: QApplication, folder: Path) -> MainWindow:
    return window_on(qtbot, qapp, folder, "scan")


@pytest.fixture
def page(window: MainWindow) -> ScanPage:
    made = window.page_tabs.page("scan")
    assert isinstance(made, ScanPage)
    return made


def run(qtbot: QtBot, page: ScanPage) -> None:
    qtbot.mouseClick(page.start_button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: page.result is not None)


def test_findings_get_the_height_that_they_need(page: ScanPage, qtbot: QtBot) -> None:
    run(qtbot, page)
    inside, last = page.area.widget(), page.cards[-1]
    qtbot.waitUntil(lambda: 0 < page.area.height() - last.geometry().bottom() < 3 * last.height() // 2)
    assert inside.height() <= page.area.height() + 1, "and nothing is cut"
    assert page.table.height() > page.area.height() // 2


def test_what_is_wrong_is_pointed_at(window: MainWindow, page: ScanPage, qtbot: QtBot) -> None:
    assert not page.table.isVisible()
    assert "Reads every weight" in page.summary.text()
    run(qtbot, page)
    said = {card.finding.code: card.finding for card in page.cards}
    assert said["non-finite"].keys == (POISONED,)
    assert "row 3, column 5" in said["non-finite"].message
    dead = next(f for f in said.values() if f.keys == (DEAD,))
    assert "row" in dead.message
    assert "7" in dead.message
    assert page.model.rowCount() == 29
    assert "29 tensors, 132,432 parameters" in page.summary.text()
    card = next(card for card in page.cards if card.finding.code == "non-finite")
    qtbot.keyClick(card, Qt.Key.Key_Return)
    assert [row.path for row in window.tree_panel.view.selected_rows()] == [POISONED]


def test_the_panel_at_the_left_follows_the_scan(window: MainWindow, page: ScanPage, qtbot: QtBot) -> None:
    before = len(window.checkpoint_panel.finding_cards)
    run(qtbot, page)
    said = [card.finding for card in window.checkpoint_panel.finding_cards]
    assert said[before:] == [card.finding for card in page.cards]
    assert page.cards
    window.session.change_target(layout="meta")
    assert len(window.checkpoint_panel.finding_cards) >= before + len(page.cards)
    window.session.close()
    assert window.session.scan_findings == ()


def test_rows_sort_by_any_figure_and_lead_to_tensors(window: MainWindow, page: ScanPage, qtbot: QtBot) -> None:
    run(qtbot, page)
    column = next(n for n, c in enumerate(COLUMNS) if c.title == "Not finite")
    page.table.sortByColumn(column, Qt.SortOrder.DescendingOrder)
    assert page.model.found[0].ref.key == POISONED
    assert page.model.data(page.model.index(0, column)) == "1"
    page.table.sortByColumn(3, Qt.SortOrder.AscendingOrder)
    deviations = [found.stats.std for found in page.model.found]
    assert deviations == sorted(deviations)
    page.table.doubleClicked.emit(page.model.index(0, 0))
    assert window.tree_panel.isVisible()
    assert [row.path for row in window.tree_panel.view.selected_rows()] == [page.model.found[0].ref.key]


def test_figures_are_those_of_numpy(page: ScanPage, folder: Path, qtbot: QtBot) -> None:
    run(qtbot, page)
    true = load_file(folder / "model.safetensors")
    for found in page.model.found:
        values = true[found.ref.key].astype(np.float64)
        values = values[np.isfinite(values)]
        assert found.stats.std == pytest.approx(values.std(), rel=1e-9)
        assert found.stats.abs_max == np.abs(values).max()


def test_a_scan_goes_on_on_other_pages_and_is_forgotten_with_its_file(
    window: MainWindow, page: ScanPage, qtbot: QtBot
) -> None:
    page.start()
    window.page_tabs.show_page("tensors")
    qtbot.waitUntil(lambda: page.result is not None)
    window.session.close()
    assert page.result is None
    assert page.model.rowCount() == 0
    assert not page.start_button.isEnabled()


def test_stopping_says_what_was_found_until_then(
    window: MainWindow, page: ScanPage, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = threading.Event()

    def slow(plan: Any, *, cancelled: Any, on_result: Any, **_: Any) -> Any:
        found = scan(plan)
        begun.set()
        while not cancelled():
            threading.Event().wait(0.01)
        for each in found.tensors[:20]:  # what was under way comes in after the button was pressed
            on_result(each)
        return dataclasses.replace(found, tensors=found.tensors[:20], complete=False)

    monkeypatch.setattr(scan_page, "scan", slow)
    page.start()
    qtbot.waitUntil(begun.is_set)
    page.job._on_cancel()
    qtbot.waitUntil(lambda: page.result is not None)
    assert page.model.rowCount() == 20
    assert {card.finding.code for card in page.cards} >= {"non-finite", "dead-rows"}
    assert page.summary.text() == f"Stopped after 20 tensors: {len(page.cards)} findings so far."
    assert not page.report_button.isVisible()
    assert page.start_button.isEnabled()
    begun.clear()
    page.start()
    qtbot.waitUntil(begun.is_set)
    window.session.close()  # what comes then belongs to nothing that is open
    qtbot.waitUntil(lambda: not window.jobs.running())
    assert page.result is None
    assert page.model.rowCount() == 0


def test_stopping_keeps_what_has_come(page: ScanPage, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = threading.Event()

    def slow(plan: Any, *, cancelled: Any, on_result: Any, **_: Any) -> Any:
        whole = scan(plan)
        for found in whole.tensors[:4]:
            on_result(found)
        begun.set()
        while not cancelled():
            threading.Event().wait(0.01)
        raise Cancelled

    monkeypatch.setattr(scan_page, "scan", slow)
    page.start()
    qtbot.waitUntil(begun.is_set)
    qtbot.waitUntil(lambda: page.model.rowCount() == 4)
    qtbot.mouseClick(page.job._button, Qt.MouseButton.LeftButton)
    assert "Stopped after 4 tensors" in page.summary.text()
    assert page.start_button.isEnabled()


def test_the_model_keeps_qt_s_rules(qapp: QApplication, folder: Path) -> None:
    model = ScanModel(Theme(qapp, "light"))
    QAbstractItemModelTester(model, QAbstractItemModelTester.FailureReportingMode.Fatal)
    with open_checkpoint(folder) as source:
        found = scan(normalise(source)).tensors
    model.add(found[:10])
    model.sort(4, Qt.SortOrder.DescendingOrder)
    model.add(found[10:])
    model.settle()
    largest = [t.stats.abs_max for t in model.found]
    assert largest == sorted(largest, reverse=True)
    model.clear()
    assert model.rowCount() == 0


@pytest.mark.parametrize("ending", ["html", "md", "json", "sarif"])
def test_the_report_holds_what_the_scan_found(page: ScanPage, qtbot: QtBot, tmp_path: Path, ending: str) -> None:
    assert not page.report_button.isVisible()
    run(qtbot, page)
    path = tmp_path / f"report.{ending}"
    page.save_report(str(path))
    qtbot.waitUntil(lambda: page.summary.text().startswith("Saved "))
    text = path.read_text()
    assert "row 3, column 5" in text
    if ending in ("json", "sarif"):
        assert json.loads(text)
    page.save_report(str(tmp_path / "no" / "report.html"))
    qtbot.waitUntil(lambda: "No such file" in page.summary.text())


def test_rows_below_those_in_sight_come_less_often(window: MainWindow, monkeypatch: pytest.MonkeyPatch) -> None:
    page, snapshot = window.page_tabs.page("scan"), window.session.snapshot
    assert isinstance(page, ScanPage)
    assert snapshot is not None
    found = scan(snapshot.plan).tensors
    monkeypatch.setattr(scan_page, "SCREEN", 5)
    page._timer.start(scan_page.DRAIN)
    for count, interval in ((4, scan_page.DRAIN), (3, scan_page.DRAIN_BELOW)):
        page._fresh = list(found[:count])
        page._drain()
        assert page._timer.interval() == interval
    page._timer.stop()
    assert page.model.rowCount() == 7
