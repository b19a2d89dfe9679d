"""The picture of a plot under the mouse: moved and zoomed at once as far as its pixels go, and then drawn anew."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from PySide6.QtCore import QPointF, QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QEnterEvent, QMouseEvent, QPainter, QPaintEvent, QPen, QResizeEvent, QWheelEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from ckpt_gui.core.keys import safe_text
from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.widgets.painting import painting
from ckpt_gui.gui.widgets.plot_drawing import Drawn
from ckpt_gui.gui.widgets.units import em
from ckpt_gui.plots.view import AxesView, Limits

LEAST = 4  # pixels that the mouse is drawn for a part to be wanted
Hand = Literal["", "move", "zoom"]
Part = tuple[Limits, Limits]


class PlotPicture(QWidget):
    """Shows what was drawn.

    Attributes:
        drawn: What is shown; None before.
        limits: Which part each of the movable axes is to show; None for what new data want.
        hand: What a pressed mouse does: move the part, or choose another.

    Signals:
        moved(): Another part is wanted.
        resized(): There is other room.
        pointed(number, x, y): The mouse is over axes, by their number, at values; −1 where it is over none.
        wheeled(number, x, y, up): The wheel was turned there.
    """

    moved = Signal()
    resized = Signal()
    pointed = Signal(int, float, float)
    wheeled = Signal(int, float, float, bool)

    def __init__(self, theme: Theme, ground: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme, self._ground = theme, ground
        self.drawn: Drawn[Any] | None = None
        self.limits: tuple[Part, ...] | None = None
        self.hand: Hand = ""
        self._pressed: tuple[int, QPointF, AxesView] | None = None
        self._band = QRect()
        self._said = ""
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)

    def sizeHint(self) -> QSize:
        """Return the usual size."""
        return QSize(em(self, 40), em(self, 30))

    def show_drawn(self, drawn: Drawn[Any], *, is_last: bool) -> None:
        """Show a picture; without a mouse in it unless it is of the last data that are wanted."""
        self.drawn = drawn
        if self.limits is None and is_last:
            self.limits = drawn.wish.limits
        self.update()

    def say(self, text: str) -> None:
        """Say why there is no picture."""
        self._said = safe_text(text, 600)
        self.update()

    def use(self, hand: Hand) -> None:
        """Let a pressed mouse do something else."""
        self.hand = hand
        cursors = {"move": Qt.CursorShape.OpenHandCursor, "zoom": Qt.CursorShape.CrossCursor}
        self.setCursor(cursors.get(hand, Qt.CursorShape.ArrowCursor))

    def views(self) -> Sequence[AxesView]:
        """Return the axes as they are to show what is wanted; nothing while new data are being drawn."""
        if self.drawn is None or self.limits is None:
            return ()
        return [view.with_limits(*part) for view, part in zip(self.drawn.views, self.limits, strict=True)]

    def show_part(self, number: int, x: Limits, y: Limits) -> None:
        """Let axes, by their number, show a part, and those that move with them."""
        if self.drawn is None or self.limits is None:
            return
        view = self.drawn.views[number]
        self.limits = tuple(
            (x if other in view.x_with else part[0], y if other in view.y_with else part[1])
            for other, part in enumerate(self.limits)
        )
        self.update()
        self.moved.emit()

    def show_home(self) -> None:
        """Show what the data showed when they were new."""
        if self.drawn is not None and self.limits is not None:
            self.limits = self.drawn.home
            self.update()
            self.moved.emit()

    # ------------------------------------------------------------------------------------------------------- drawing

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Draw the picture, and the parts that were moved as its pixels show them."""
        with painting(self) as painter:
            if self.drawn is None:
                painter.fillRect(self.rect(), self._theme.color(self._ground))
                painter.setPen(self._theme.color("muted"))
                painter.drawText(self.rect(), Qt.AlignmentFlag.AlignCenter | Qt.TextFlag.TextWordWrap, self._said)
            else:
                self._draw(painter, self.drawn)
            if not self._band.isNull():
                painter.setPen(QPen(self._theme.color("text"), 1, Qt.PenStyle.DashLine))
                painter.drawRect(self._band)

    def _draw(self, painter: QPainter, drawn: Drawn[Any]) -> None:
        painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform)
        painter.drawImage(self.rect(), drawn.image)
        painter.scale(self.width() / drawn.wish.size[0], self.height() / drawn.wish.size[1])
        for old, new in zip(drawn.views, self.views(), strict=False):
            if (old.x, old.y) != (new.x, new.y):
                _draw_moved(painter, drawn, old, new)
        painter.resetTransform()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Tell that there is other room."""
        super().resizeEvent(event)
        self.resized.emit()

    # ----------------------------------------------------------------------------------------------------- the mouse

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Begin to move a part, or to choose one."""
        number = self._number_at(event.position())
        if event.button() == Qt.MouseButton.LeftButton and self.hand and number >= 0:
            self._pressed = number, event.position(), self.views()[number]

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Name what is under the mouse; while it is pressed, move the part or show which one is chosen."""
        at = event.position()
        if self._pressed is None:
            self._point(at)
            return
        number, begun, view = self._pressed
        if self.hand == "move":
            self.show_part(number, *_moved(view, begun - at))
        else:
            self._band = QRectF(begun, at).normalized().intersected(QRectF(*view.box)).toRect()
            self.update()

    def mouseReleaseEvent(self, _event: QMouseEvent) -> None:
        """Show the part that was chosen."""
        pressed, band = self._pressed, self._band
        self._pressed, self._band = None, QRect()
        if pressed is not None and band.width() >= LEAST and band.height() >= LEAST:
            view = pressed[2]
            self.show_part(pressed[0], *_chosen(view, QRectF(band)))
        self.update()

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Tell of the wheel over axes."""
        number, turned = self._number_at(event.position()), event.angleDelta().y()
        if number >= 0 and turned:
            view = self.views()[number]
            self.wheeled.emit(
                number, view.x.value(event.position().x()), view.y.value(event.position().y()), turned > 0
            )
            event.accept()
        else:
            event.ignore()

    def leaveEvent(self, event: QEnterEvent) -> None:  # type: ignore[override]  # Qt says QEvent
        """Name nothing."""
        super().leaveEvent(event)
        self.pointed.emit(-1, 0.0, 0.0)

    def _point(self, at: QPointF) -> None:
        number = self._number_at(at)
        view = self.views()[number] if number >= 0 else None
        if view is None:
            self.pointed.emit(-1, 0.0, 0.0)
        else:
            self.pointed.emit(number, view.x.value(at.x()), view.y.value(at.y()))

    def _number_at(self, at: QPointF) -> int:
        return next((n for n, view in enumerate(self.views()) if view.holds(at.x(), at.y())), -1)


def _draw_moved(painter: QPainter, drawn: Drawn[Any], old: AxesView, new: AxesView) -> None:
    """Draw axes as they are to be, from the pixels that there are."""
    box, ratio = QRectF(*old.box), drawn.wish.ratio
    corners = [
        QPointF(new.x.place(old.x.value(at.x())), new.y.place(old.y.value(at.y())))
        for at in (box.topLeft(), box.bottomRight())
    ]
    source = QRectF(box.x() * ratio, box.y() * ratio, box.width() * ratio, box.height() * ratio)
    painter.save()
    painter.setClipRect(box)
    painter.fillRect(box, QColor(drawn.wish.palette.window))
    painter.drawImage(QRectF(*corners).normalized(), drawn.image, source)
    painter.restore()


def _moved(view: AxesView, by: QPointF) -> Part:
    """Return what axes show once they were moved by some pixels."""
    (left, right), (bottom, top) = view.x.ends, view.y.ends
    return (
        (view.x.value(left + by.x()), view.x.value(right + by.x())),
        (view.y.value(bottom + by.y()), view.y.value(top + by.y())),
    )


def _chosen(view: AxesView, band: QRectF) -> Part:
    """Return the part of axes that lies in a rectangle."""
    return (
        (view.x.value(band.left()), view.x.value(band.right())),
        (view.y.value(band.bottom()), view.y.value(band.top())),
    )
