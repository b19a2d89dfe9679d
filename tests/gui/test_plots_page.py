"""The page of plots: true numbers in each picture, zoom down to single values, copy, CSV, and nothing left running."""

from __future__ import annotations

import csv
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.layout_engine import ConstrainedLayoutEngine
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot
from safetensors.numpy import save_file

from ckpt_gui.core.stats import HeatMap
from ckpt_gui.gui.panels.heat_zoom import block_text
from ckpt_gui.gui.panels.plots_page import PlotsPage
from ckpt_gui.plots import CastPlot, HistogramPlot, StripPlot
from ckpt_gui.plots.heat import HeatPairPlot
from tests.gui.windows import window_on

SAMPLE = Path(__file__).parents[2] / "resources/sample/tiny-llama-compiled.pt"


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def open_page(qtbot: QtBot, app: QApplication, path: Path) -> PlotsPage:
    window = window_on(qtbot, app, path, "plots")
    page = window.page_tabs.page("plots")
    assert isinstance(page, PlotsPage)
    return page


def test_places_are_found_for_new_data_and_kept_for_a_zoom(page: PlotsPage, qtbot: QtBot) -> None:
    choose(page, "big")
    drawn(qtbot, page, "heat")
    canvas = page.canvases["heat"]
    engine = canvas.plot.figure.get_layout_engine

    def arranges() -> bool:
        return isinstance(engine(), ConstrainedLayoutEngine)

    canvas.canvas.draw()
    assert not arranges()
    places = [axes.get_position().bounds for axes in canvas.plot.figure.axes]
    page.zoom._on_wheel(SimpleNamespace(inaxes=canvas.plot.mean.axes, button="up", xdata=200.0, ydata=300.0))
    canvas.canvas.draw()
    assert [axes.get_position().bounds for axes in canvas.plot.figure.axes] == places
    canvas.show_data(lambda _: None, new_view=False)
    assert not arranges()
    canvas.show_data(lambda _: None)
    assert arranges()


@pytest.fixture
def big() -> np.ndarray:
    values = np.random.default_rng(1).normal(size=(600, 500)).astype(np.float32)
    values[37, 41] = 1e6
    values[500, 3] = np.nan
    values[0, 0] = 1e-30
    return values


@pytest.fixture
def page(qtbot: QtBot, qapp: QApplication, tmp_path: Path, big: np.ndarray) -> PlotsPage:
    save_file({"big": big, "words": np.arange(6)}, tmp_path / "m.safetensors")
    return open_page(qtbot, qapp, tmp_path / "m.safetensors")


def choose(page: PlotsPage, key: str) -> None:
    snapshot = page._session.snapshot
    assert snapshot is not None
    page.choice.choose(next(ref for ref in snapshot.source.refs if ref.key.endswith(key)))


def drawn(qtbot: QtBot, page: PlotsPage, name: str) -> object:
    qtbot.mouseClick(page.buttons[name], Qt.MouseButton.LeftButton)
    canvas = page.canvases[name]
    qtbot.waitUntil(lambda: canvas.ready and name in page._shown and not page.job.running)
    return canvas.plot


def test_distribution(page: PlotsPage, qtbot: QtBot, big: np.ndarray) -> None:
    choose(page, "big")
    plot = drawn(qtbot, page, "distribution")
    assert isinstance(plot, HistogramPlot)
    counts, edges, _ = plot.lines[0].get_data()
    assert sum(n for n in counts if n >= 1) == big.size - 1
    assert edges[-1] == pytest.approx(1e6)
    assert plot.bars[0].get_data()[0][2] == 1  # NaN


def test_heat_map_zooms_down_to_single_values(page: PlotsPage, qtbot: QtBot, big: np.ndarray) -> None:
    choose(page, "big")
    plot = drawn(qtbot, page, "heat")
    assert isinstance(plot, HeatPairPlot)
    assert plot.found is not None
    assert plot.found.row_step > 1
    assert np.nanmax(plot.found.abs_max) == 1e6
    assert int(plot.found.bad.sum()) == 1
    plot.mean.axes.set_xlim(38.5, 44.5)  # as the toolbar's zoom does
    plot.mean.axes.set_ylim(40.5, 34.5)
    qtbot.waitUntil(lambda: plot.found is not None and plot.found.true_values)
    found = plot.found
    assert (found.rows, found.columns) == ((35, 41), (39, 45))
    assert np.array_equal(found.mean, big[35:41, 39:45].astype(np.float64))
    assert plot.largest.axes.get_xlim() == (38.5, 44.5)
    assert "1e+06" in {text.get_text() for text in plot.values}
    assert block_text(found, 37, 41) == "row 37, column 41: 1e+06"


def test_the_wheel_zooms_around_the_mouse_and_not_beyond(page: PlotsPage, qtbot: QtBot) -> None:
    choose(page, "big")
    plot = drawn(qtbot, page, "heat")
    assert isinstance(plot, HeatPairPlot)
    axes = plot.mean.axes
    turn = SimpleNamespace(inaxes=axes, button="up", xdata=100.0, ydata=300.0)
    page.zoom._on_wheel(turn)
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    assert (right - left, bottom - top) == pytest.approx((500 / 1.4, 600 / 1.4))
    assert (100 - left) / (right - left) == pytest.approx(100.5 / 500)
    for _ in range(5):
        page.zoom._on_wheel(SimpleNamespace(**{**vars(turn), "button": "down"}))
    assert axes.get_xlim() == (-0.5, 499.5)
    assert axes.get_ylim() == (599.5, -0.5)


def test_the_mouse_names_a_block() -> None:
    grid = np.array([[1.0, np.nan]])
    found = HeatMap("t", (10, 14), (0, 5), 4, 3, grid, grid * 2, np.array([[0, 3]]))
    assert block_text(found, 13, 2) == "rows 10–13, columns 0–2: mean 1, largest |x| 2"
    assert block_text(found, 10, 3) == "rows 10–13, columns 3–4: mean nan, largest |x| nan, 3 not finite"
    assert block_text(found, 14, 0) == ""


def test_layers(qtbot: QtBot, qapp: QApplication) -> None:
    page = open_page(qtbot, qapp, SAMPLE)
    choose(page, "layers.1.attention.wo.weight")
    plot = drawn(qtbot, page, "layers")
    assert isinstance(plot, StripPlot)
    assert list(plot.lines[0].get_xdata()) == [0, 1, 2]
    choose(page, "tok_embeddings.weight")
    qtbot.waitUntil(lambda: "has no like in other layers" in page.message.text())
    assert not page.stack.isVisible()


def test_cast_to_another_type_than_its_own(page: PlotsPage, qtbot: QtBot) -> None:
    choose(page, "big")
    page.target.setCurrentIndex(page.target.findData("fp16"))
    plot = drawn(qtbot, page, "cast")
    assert isinstance(plot, CastPlot)
    found = page._shown["cast"][1]
    assert (found.overflow, found.vanished) == (1, 1)
    assert "1 become infinite" in plot.axes._left_title.get_text()


def test_what_has_no_picture_says_why(page: PlotsPage, qtbot: QtBot) -> None:
    choose(page, "words")
    page.turn_to("cast")
    qtbot.waitUntil(lambda: "casts are between" in page.message.text())


def test_copy_and_save(page: PlotsPage, qtbot: QtBot, tmp_path: Path, big: np.ndarray) -> None:
    choose(page, "big")
    drawn(qtbot, page, "distribution")
    QGuiApplication.clipboard().clear()
    qtbot.mouseClick(page.copy_button, Qt.MouseButton.LeftButton)
    image = QGuiApplication.clipboard().image()
    assert image.width() > 300
    assert len({image.pixel(x, image.height() // 2) for x in range(image.width())}) > 3  # not blank
    page.save_numbers(str(tmp_path / "out.csv"))
    qtbot.waitUntil(lambda: page.message.text().startswith("Saved "))
    rows = list(csv.reader((tmp_path / "out.csv").read_text().splitlines()))
    assert rows[0] == ["from", "to", "big"]
    assert sum(int(row[2]) for row in rows[1:]) == big.size - 1
    page.save_numbers(str(tmp_path / "no" / "out.csv"))
    qtbot.waitUntil(lambda: page.message.text().startswith("Not saved: "))


def test_closing_forgets(page: PlotsPage, qtbot: QtBot) -> None:
    choose(page, "big")
    drawn(qtbot, page, "distribution")
    page._session.close()
    assert page._shown == {}
    assert page.choice.ref is None
    assert not page.stack.isVisible()


def test_the_rows_of_buttons_are_not_wide(page: PlotsPage, qtbot: QtBot) -> None:
    kinds = sum(each.sizeHint().width() for each in page.buttons.values()) + page.target.sizeHint().width()
    assert page.copy_button.parentWidget() is page
    page.turn_to("cast")
    assert page.minimumSizeHint().width() <= kinds + 80  # no other button stands in that row
