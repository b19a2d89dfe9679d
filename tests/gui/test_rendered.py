"""What is drawn, by its pixels: every text can be read on its ground, and the focus is seen, in every theme."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pytest
from PySide6.QtCore import QPoint, QRect, Qt
from PySide6.QtGui import QImage
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QAbstractSpinBox,
    QApplication,
    QComboBox,
    QDialog,
    QLabel,
    QLineEdit,
    QPlainTextEdit,
    QTabBar,
    QWidget,
)
from pytestqt.qtbot import QtBot

from ckpt_gui.desktop.resources import SAMPLE, resource
from ckpt_gui.gui.looks import SCHEME_COLOURS
from ckpt_gui.gui.main_window import MainWindow
from tests.gui.windows import make_window

FINE = 3  # texts are drawn so much larger that their strokes are more than the edges of letters
SCHEMES = sorted(SCHEME_COLOURS)
SEEN = ("tensors", "overview", "settings", "palette", "export", "start")
STOPS = ("tensors", "settings", "export", "start")
Pixels = npt.NDArray[np.float64]


@pytest.fixture(params=SCHEMES)
def window(qtbot: QtBot, qapp: QApplication, request: pytest.FixtureRequest) -> Iterator[MainWindow]:
    made = make_window(qtbot, qapp)
    made.theme.set_scheme(request.param)
    with qtbot.waitSignal(made.settled):
        made.open_path(str(resource(SAMPLE)))
    yield made
    made.theme.set_scheme("light")


def shown(window: MainWindow, qtbot: QtBot, what: str) -> QWidget:
    """Show a page, the start page or a dialog."""
    if what == "start":
        window.commands.close_checkpoint()
        return window
    if what in window.page_tabs.names:
        window.page_tabs.show_page(what)
        qtbot.waitUntil(lambda: not window.jobs.running())
        return window
    before = set(window.findChildren(QDialog))
    window.actions_by_id[what].trigger()
    (dialog,) = set(window.findChildren(QDialog)) - before
    qtbot.waitUntil(lambda: not window.jobs.running())
    return dialog


def pixels(top: QWidget, scale: int = 1) -> Pixels:
    """Return the luminance of every pixel of a window."""
    image = QImage(top.size() * scale, QImage.Format.Format_RGB32)
    image.setDevicePixelRatio(scale)
    top.render(image, QPoint(0, 0))
    raw = np.frombuffer(image.constBits(), np.uint8).reshape(image.height(), image.bytesPerLine())
    colours = raw[:, : 4 * image.width()].reshape(image.height(), image.width(), 4)[:, :, 2::-1] / 255
    linear = np.where(colours <= 0.04045, colours / 12.92, ((colours + 0.055) / 1.055) ** 2.4)
    found: Pixels = linear @ np.array([0.2126, 0.7152, 0.0722])
    return found


def part(image: Pixels, top: QWidget, widget: QWidget, scale: int = 1) -> Pixels:
    """Return what is seen of a widget in a picture of its window."""
    seen: QRect = widget.visibleRegion().boundingRect()
    seen.moveTopLeft(widget.mapTo(top, seen.topLeft()))
    return image[scale * seen.top() : scale * (seen.bottom() + 1), scale * seen.left() : scale * (seen.right() + 1)]


def ratio(first: Pixels, second: Pixels) -> Pixels:
    """Return the contrast of luminances, as WCAG defines it."""
    return (np.maximum(first, second) + 0.05) / (np.minimum(first, second) + 0.05)


def texts(top: QWidget) -> Iterator[QLabel | QAbstractButton]:
    """Yield what shows a text, and is seen."""
    for kind in (QLabel, QAbstractButton):
        for widget in top.findChildren(kind):
            region = widget.visibleRegion().boundingRect()
            if widget.window() is top and widget.text().strip() and min(region.width(), region.height()) > 8:
                yield widget


def test_every_text_can_be_read_on_its_ground(window: MainWindow, qtbot: QtBot) -> None:
    low = []
    for what in SEEN:
        top = shown(window, qtbot, what)
        low += [f"{what}: {text}" for text in hard_to_read(top)]
        left(window, top)
    assert not low, "\n".join(low)


def left(window: MainWindow, top: QWidget) -> None:
    """Close a dialog."""
    if top is not window:
        top.close()


def hard_to_read(top: QWidget) -> Iterator[str]:
    """Yield the texts whose letters are too much like their ground."""
    image = pixels(top, FINE)
    for widget in texts(top):
        seen = part(image, top, widget, FINE)
        values, counts = np.unique(np.round(seen, 3), return_counts=True)
        ground = values[counts.argmax()]
        best = float(ratio(seen, np.full_like(seen, ground)).max())
        if best < 4.5:
            yield f"{type(widget).__name__} {widget.text()[:30]!r}: {best:.2f}"


FOCUSED = (QAbstractButton, QLineEdit, QComboBox, QAbstractSpinBox, QAbstractItemView, QPlainTextEdit, QTabBar)


def test_what_has_the_focus_is_seen(window: MainWindow, qtbot: QtBot) -> None:
    unseen = []
    for what in STOPS:
        top = shown(window, qtbot, what)
        top.activateWindow()
        qtbot.waitUntil(lambda top=top: QApplication.activeWindow() is top)  # type: ignore[misc]
        unseen += [f"{what}: {text}" for text in without_ring(top)]
        left(window, top)
    assert not unseen, "\n".join(unseen)


def without_ring(top: QWidget) -> Iterator[str]:
    """Yield what looks with the focus as it does without."""
    found = [
        it
        for it in (*top.findChildren(QWidget), *top.findChildren(QAbstractButton))
        if (isinstance(it, FOCUSED) or type(it).__name__ == "FindingCard") and stops(it, top)
    ]
    for widget in dict.fromkeys(found):
        other = next(it for it in found if it is not widget)
        other.setFocus(Qt.FocusReason.OtherFocusReason)
        before = part(pixels(top), top, widget).copy()
        widget.setFocus(Qt.FocusReason.TabFocusReason)
        after = part(pixels(top), top, widget)
        if before.shape != after.shape:  # scrolled into sight
            continue
        changed = int((ratio(before, after) >= 3).sum())
        width = widget.tabRect(widget.currentIndex()).width() if isinstance(widget, QTabBar) else widget.width()
        if changed < width // 2:
            yield f"{type(widget).__name__} {widget.accessibleName()!r}: {changed} pixels of {width}"


def stops(widget: QWidget, top: QWidget) -> bool:
    """Return True if Tab stops at a widget, and all of it is seen."""
    seen = widget.visibleRegion().boundingRect()
    return bool(
        widget.window() is top
        and widget.isEnabled()
        and widget.focusPolicy() & Qt.FocusPolicy.TabFocus
        and widget.focusProxy() is None
        and seen == widget.rect()
        and not (isinstance(widget, QTabBar) and not widget.count())
        and not isinstance(widget.parent(), QComboBox | QAbstractSpinBox)
    )
