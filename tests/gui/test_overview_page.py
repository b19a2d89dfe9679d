"""The overview page: right sums, rows that lead to tensors, keyboard and names for screen readers."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QLabel
from pytestqt.qtbot import QtBot

from ckpt_gui.core.file_map import ByteRange
from ckpt_gui.gui.main_window import MainWindow
from ckpt_gui.gui.panels import overview_page
from ckpt_gui.gui.panels.overview_page import OverviewPage
from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.widgets.byte_map import ByteMap
from tests.gui.checkpoints import source
from tests.gui.windows import make_window, window_on

SAMPLE = Path(__file__).parents[2] / "resources/sample/tiny-llama-compiled.pt"


@pytest.fixture
def window(qtbot: QtBot, qapp: QApplication) -> MainWindow:
    return window_on(qtbot, qapp, SAMPLE, "overview")


@pytest.fixture
def page(qtbot: QtBot, window: MainWindow) -> OverviewPage:
    made = window.page_tabs.page("overview")
    assert isinstance(made, OverviewPage)
    qtbot.waitUntil(lambda: made.overview is not None and bool(made.map.text()))
    return made


def test_sums(page: OverviewPage) -> None:
    assert page.tiles.value("parameters") == "132,432"
    assert page.tiles.note("parameters") == "144,720 with every alias"
    assert page.tiles.value("types") == "bf16"
    rows = {row.bar.name: row.bar.text for row in page.parts.rows}
    assert rows["embedding"] == "24.0 KiB · 9.28 %"  # 256 × 48 in bf16
    assert rows["attention"] == "72.0 KiB · 27.8 %"
    assert page.layers.text() == "layer 0: 78.2 KiB · 30.2 %"
    assert not page._experts_card.isVisible()
    loads = {row.bar.name: row.bar.size for row in page.loads.rows}
    assert loads["fp32"] == 4 * 132_432
    assert loads["bf16"] == 2 * 132_432


def test_a_row_leads_to_its_tensors(window: MainWindow, page: OverviewPage, qtbot: QtBot) -> None:
    row = next(row for row in page.parts.rows if row.bar.name == "norms")
    assert row.accessibleName() == "norms: 672 B · 0.254 %. 7 tensors, 336 parameters"
    row.setFocus()
    qtbot.keyClick(row, Qt.Key.Key_Space)
    assert window.tree_panel.isVisible()
    assert "norms" in window.tree_panel.bar.only_button.text()
    assert [r.path for r in window.tree_panel.view.selected_rows()] == ["_orig_mod.layers.0.attention_norm.weight"]


def test_a_layer_leads_to_its_tensors(window: MainWindow, page: OverviewPage, qtbot: QtBot) -> None:
    qtbot.keyClick(page.layers, Qt.Key.Key_Right)
    qtbot.keyClick(page.layers, Qt.Key.Key_Right)
    assert page.layers.text().startswith("layer 2: ")
    qtbot.keyClick(page.layers, Qt.Key.Key_End)
    assert page.layers.text().startswith("outside the layers: ")
    qtbot.keyClick(page.layers, Qt.Key.Key_Return)
    paths = {r.path for r in window.tree_panel.view.selected_rows()}
    assert paths == {"_orig_mod.tok_embeddings.weight"}


def test_tensors_of_a_large_model_are_looked_for_in_a_job(
    window: MainWindow, page: OverviewPage, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overview_page, "MANY", 0)
    page.layers.setFocus()
    qtbot.keyClick(page.layers, Qt.Key.Key_End)
    qtbot.keyClick(page.layers, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: window.tree_panel.only == "outside the layers")
    qtbot.waitUntil(lambda: bool(window.tree_panel.view.selected_rows()))
    assert not page.job.running


def test_the_largest_lead_to_themselves(window: MainWindow, page: OverviewPage, qtbot: QtBot) -> None:
    assert page.largest.rows[0].bar.text == "24.0 KiB"
    qtbot.mouseClick(page.largest.rows[0], Qt.MouseButton.LeftButton)
    chosen = [f"model.{r.path}" for r in window.tree_panel.view.selected_rows()]
    assert chosen == [page.largest.rows[0].bar.name]


def test_the_map_walks_over_the_file(page: OverviewPage, qtbot: QtBot) -> None:
    assert page.map.text().startswith("header: bytes 0 to ")
    qtbot.keyClick(page.map, Qt.Key.Key_Right)
    assert "aligned to 64" in page.map.text()
    assert "Blue: tensors." in page.map_note.text()


def test_closing_empties_it(window: MainWindow, page: OverviewPage) -> None:
    window.session.close()
    assert page.overview is None
    assert not page.tiles.isVisible()


def test_a_container_that_does_not_tell(qtbot: QtBot, qapp: QApplication) -> None:
    window = make_window(qtbot, qapp, source())
    window.page_tabs.show_page("overview")
    page = window.page_tabs.page("overview")
    assert isinstance(page, OverviewPage)
    qtbot.waitUntil(lambda: page.overview is not None)
    assert page.tiles.value("types") == "bf16"
    assert not page._map_card.isVisible()


def test_neighbours_in_the_map_have_two_colours(qapp: QApplication, qtbot: QtBot) -> None:
    made = ByteMap(Theme(qapp, "light"))
    qtbot.addWidget(made)
    made.show_runs(
        [
            ByteRange(0, 10, "header"),
            ByteRange(10, 50, "tensor", ("a",)),
            ByteRange(50, 60, "gap"),
            ByteRange(60, 99, "tensor", ("b", "c")),
        ]
    )
    colours = [made._colour(number).name() for number in range(4)]
    assert len(set(colours)) == 4
    made.resize(400, 80)
    made.show()
    qtbot.mouseMove(made, made.rect().bottomRight())
    assert made.text() == "b and 1 more: bytes 60 to 99, 39 B, aligned to 1"


def test_large_letters_cut_no_figure(page: OverviewPage, qapp: QApplication) -> None:
    font = page.font()
    font.setPointSize(18)
    page.tiles.setFont(font)
    for row in page.parts.rows:
        row.setFont(font)
        for width in (240, 360, 900):
            row.resize(width, row.sizeHint().height())
            name, figures = row.widths()
            assert figures >= row.fontMetrics().horizontalAdvance(row.bar.text)
            assert name + figures <= width
    for width in (300, 500, 1400):
        page.tiles.resize(width, 400)
        qapp.processEvents()
        for label in page.tiles.findChildren(QLabel):
            if not label.isHidden():
                assert label.width() >= label.sizeHint().width(), (width, label.text())
