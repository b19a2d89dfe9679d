"""The page of plots: true numbers in each picture, zoom down to single values, copy, CSV, and nothing left running."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from matplotlib.layout_engine import ConstrainedLayoutEngine
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QGuiApplication, QMouseEvent
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot
from safetensors.numpy import save_file

from ckpt_gui.core.stats import HeatMap
from ckpt_gui.gui.panels.heat_zoom import block_text
from ckpt_gui.gui.panels.plots_page import PlotsPage
from ckpt_gui.plots import CastPlot, HistogramPlot, StripPlot
from ckpt_gui.plots.heat import HeatPairPlot
from ckpt_gui.plots.view import AxesView
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
    boxes = [view.box for view in views(page)]
    canvas.picture.wheeled.emit(0, 200.0, 300.0, True)
    assert not canvas.ready
    qtbot.waitUntil(lambda: canvas.ready)
    assert canvas.picture.drawn is not None
    assert [view.box for view in canvas.picture.drawn.views] == boxes
    looked: list[object] = []
    canvas.show_data(lambda plot: looked.append(plot.figure.get_layout_engine()), new_view=False)
    qtbot.waitUntil(lambda: canvas.ready)
    assert not isinstance(looked[0], ConstrainedLayoutEngine)  # nothing was arranged since the first drawing
    assert views(page)[0].x.limits != canvas.picture.drawn.home[0][0]
    page.turn_to("distribution")
    choose(page, "small")
    drawn(qtbot, page, "heat")
    assert views(page)[0].x.limits == (-0.5, 6.5)  # another tensor is seen as a whole


@pytest.fixture
def big() -> np.ndarray:
    values = np.random.default_rng(1).normal(size=(600, 500)).astype(np.float32)
    values[37, 41] = 1e6
    values[500, 3] = np.nan
    values[0, 0] = 1e-30
    return values


@pytest.fixture
def page(qtbot: QtBot, qapp: QApplication, tmp_path: Path, big: np.ndarray) -> PlotsPage:
    small = np.arange(35, dtype=np.float32).reshape(5, 7)
    save_file({"big": big, "small": small, "words": np.arange(6)}, tmp_path / "m.safetensors")
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


def views(page: PlotsPage) -> Sequence[AxesView]:
    return page.canvases["heat"].picture.views()


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
    picture = page.canvases["heat"].picture
    picture.show_part(0, (38.5, 44.5), (40.5, 34.5))  # as a rectangle that is drawn with the mouse
    qtbot.waitUntil(lambda: page.canvases["heat"].ready and plot.found.true_values)
    found = plot.found
    assert (found.rows, found.columns) == ((35, 41), (39, 45))
    assert np.array_equal(found.mean, big[35:41, 39:45].astype(np.float64))
    assert plot.largest.axes.get_xlim() == views(page)[1].x.limits == (38.5, 44.5)
    assert "1e+06" in {text.get_text() for text in plot.values}
    assert block_text(found, 37, 41) == "row 37, column 41: 1e+06"


def test_the_wheel_zooms_around_the_mouse_and_not_beyond(page: PlotsPage, qtbot: QtBot) -> None:
    choose(page, "big")
    drawn(qtbot, page, "heat")
    picture = page.canvases["heat"].picture
    picture.wheeled.emit(1, 100.0, 300.0, True)
    for view in views(page):  # both layers
        (left, right), (bottom, top) = view.x.limits, view.y.limits
        assert (right - left, bottom - top) == pytest.approx((500 / 1.4, 600 / 1.4))
        assert (100 - left) / (right - left) == pytest.approx(100.5 / 500)
    for _ in range(5):
        picture.wheeled.emit(0, 100.0, 300.0, False)
    assert views(page)[0].x.limits == (-0.5, 499.5)
    assert views(page)[0].y.limits == (599.5, -0.5)


def test_the_mouse_moves_and_chooses_a_part(page: PlotsPage, qtbot: QtBot) -> None:
    choose(page, "big")
    drawn(qtbot, page, "heat")
    canvas = page.canvases["heat"]
    left, top, width, height = views(page)[0].box
    middle = QPointF(left + width / 2, top + height / 2).toPoint()
    corner = QPointF(left + width / 4, top + height / 4).toPoint()
    canvas.tools.zoom_hand.click()
    _draw_mouse(canvas.picture, corner, middle)
    assert views(page)[0].x.limits == pytest.approx((124.5, 249.5), abs=3)
    assert views(page)[0].y.limits == pytest.approx((299.5, 149.5), abs=3)
    canvas.tools.move_hand.click()
    assert not canvas.tools.zoom_hand.isChecked()
    _draw_mouse(canvas.picture, corner, middle)  # by a quarter of the box: of what it shows
    assert views(page)[0].x.limits == pytest.approx((93, 218), abs=3)
    assert views(page)[1].y.limits == pytest.approx((262, 112), abs=3)
    canvas.tools.move_hand.click()
    _draw_mouse(canvas.picture, corner, middle)
    assert views(page)[0].x.limits == pytest.approx((93, 218), abs=3)
    canvas.tools.home.click()
    assert views(page)[0].x.limits == (-0.5, 499.5)
    qtbot.waitUntil(lambda: canvas.ready and not page.job.running)


def test_the_mouse_over_a_map_names_its_block(page: PlotsPage, qtbot: QtBot) -> None:
    choose(page, "small")
    drawn(qtbot, page, "heat")
    view = views(page)[0]
    at = QPointF(view.x.place(3), view.y.place(2))
    _send(page.canvases["heat"].picture, QEvent.Type.MouseMove, at.toPoint(), Qt.MouseButton.NoButton)
    assert page.hint.text() == "row 2, column 3: 17"


def test_a_picture_is_saved(page: PlotsPage, qtbot: QtBot, tmp_path: Path) -> None:
    choose(page, "big")
    drawn(qtbot, page, "distribution")
    canvas = page.canvases["distribution"]
    canvas.save(str(tmp_path / "a.svg"))
    qtbot.waitUntil(lambda: (tmp_path / "a.svg").exists() and not page._session.jobs.running())
    assert "elements" in (tmp_path / "a.svg").read_text()
    canvas.save(str(tmp_path / "a.gif"))
    qtbot.waitUntil(lambda: "must end in .svg, .png or .pdf" in canvas.trouble.text())


def _draw_mouse(widget: QWidget, start: QPoint, end: QPoint) -> None:
    _send(widget, QEvent.Type.MouseButtonPress, start, Qt.MouseButton.LeftButton)
    _send(widget, QEvent.Type.MouseMove, end, Qt.MouseButton.NoButton)
    _send(widget, QEvent.Type.MouseButtonRelease, end, Qt.MouseButton.LeftButton)


def _send(widget: QWidget, kind: QEvent.Type, at: QPoint, which: Qt.MouseButton) -> None:
    """Send an event of the mouse to a widget: the test library sends no moves while a button is pressed."""
    there = QPointF(widget.mapToGlobal(at))
    event = QMouseEvent(kind, QPointF(at), there, which, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier)
    QApplication.sendEvent(widget, event)


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
    qtbot.waitUntil(lambda: not QGuiApplication.clipboard().image().isNull())
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
