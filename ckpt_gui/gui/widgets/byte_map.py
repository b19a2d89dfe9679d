"""A file as a ribbon in a few lines: where each tensor lies, and where nothing lies that anybody knows of."""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Sequence

from PySide6.QtCore import QEvent, QPoint, QSize, Qt, Signal
from PySide6.QtGui import QColor, QHelpEvent, QImage, QKeyEvent, QMouseEvent, QPaintEvent, QPen
from PySide6.QtWidgets import QToolTip, QWidget

from ckpt_gui.core.file_map import ByteRange
from ckpt_gui.core.keys import safe_text
from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.widgets.painting import painting
from ckpt_gui.gui.widgets.units import em, tip_text
from ckpt_gui.gui.widgets.walked import Walked
from ckpt_gui.gui.wording import count_text, human_bytes

LINES = 5
KINDS = {"header": ("violet", 0.75), "gap": ("orange", 0.85)}  # colour role and how much of it
TENSORS = (("blue", 0.30), ("blue", 0.62))  # neighbours look different


class ByteMap(Walked):
    """Runs of bytes of a file; the one under the mouse, or chosen by the arrow keys, is named.

    Signals:
        chosen(key): A tensor was clicked, or Enter was pressed on it.
        current_changed(text): What is said of the current run.
    """

    chosen = Signal(str)
    current_changed = Signal(str)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(theme, parent)
        self._runs: tuple[ByteRange, ...] = ()
        self._begins: list[int] = []
        self._ordinals: list[int] = []  # how many tensors there are up to each run
        self._image: QImage | None = None
        theme.changed.connect(self._forget)

    def sizeHint(self) -> QSize:
        """Return the height of the lines."""
        return QSize(em(self, 20), LINES * em(self, 1.2) + 4)

    def show_runs(self, runs: Sequence[ByteRange]) -> None:
        """Show another file."""
        self._runs, self._begins = tuple(runs), [run.begin for run in runs]
        self._ordinals = list(itertools.accumulate(run.kind == "tensor" for run in runs))
        self._go(0)
        self._forget()

    def text(self) -> str:
        """Return what is said of the current run."""
        if not self._runs:
            return ""
        run = self._runs[self.current]
        place = self.tr("bytes {begin} to {end}, {size}").format(
            begin=count_text(run.begin), end=count_text(run.end), size=human_bytes(run.end - run.begin)
        )
        if run.kind != "tensor":
            word = self.tr("header") if run.kind == "header" else self.tr("no tensor that is one run of bytes")
            return f"{word}: {place}"
        more = self.tr(" and {n} more").format(n=len(run.keys) - 1) if len(run.keys) > 1 else ""
        name = safe_text(run.keys[0], 120)
        return self.tr("{name}{more}: {place}, aligned to {n}").format(name=name, more=more, place=place, n=run.aligned)

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Draw the ribbon from its picture, and the focus."""
        with painting(self) as painter:
            if self._image is None:
                self._image = self._picture(painter.device().devicePixelRatioF())
            painter.drawImage(QPoint(2, 2), self._image)
            if self.hasFocus():
                painter.setPen(QPen(self._theme.color("focus"), 2))
                painter.drawRect(self.rect().adjusted(1, 1, -1, -1))

    def event(self, event: QEvent) -> bool:
        """Name what is under the mouse as a tool tip."""
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent) and self._runs:
            QToolTip.showText(event.globalPos(), tip_text(self.text()), self)
            return True
        if event.type() == QEvent.Type.Resize:
            self._forget()
        return super().event(event)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Name what is under the mouse."""
        self._go(self._under(event.position().toPoint()))

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """Choose the tensor."""
        if event.button() == Qt.MouseButton.LeftButton:
            self._go(self._under(event.position().toPoint()))
            self._choose()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Walk with the arrow keys; Enter and Space choose."""
        key = event.key()
        if key in (Qt.Key.Key_Left, Qt.Key.Key_Right):
            self._go(self.current + (1 if key == Qt.Key.Key_Right else -1))
        elif key in (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space):
            self._choose()
        else:
            super().keyPressEvent(event)

    def _choose(self) -> None:
        if self._runs and self._runs[self.current].keys:
            self.chosen.emit(self._runs[self.current].keys[0])

    def _go(self, number: int) -> None:
        self.current = max(0, min(number, len(self._runs) - 1))
        self.setAccessibleName(self.tr("Map of the file. {}").format(self.text()))
        self.current_changed.emit(self.text())

    def _forget(self) -> None:
        self._image = None
        self.update()

    def _under(self, point: QPoint) -> int:
        wide, high = max(self.width() - 4, 1), max(self.height() - 4, 1)
        line = max(0, min((point.y() - 2) * LINES // high, LINES - 1))
        share = (line + max(0.0, min((point.x() - 2) / wide, 1.0))) / LINES
        return self._run_at(int(share * self._size()))

    def _run_at(self, offset: int) -> int:
        return max(0, bisect_right(self._begins, offset) - 1)

    def _size(self) -> int:
        return self._runs[-1].end if self._runs else 0

    def _picture(self, ratio: float) -> QImage:
        """Return the ribbon: for every pixel of every line the run that lies in its middle."""
        wide, high = max(int((self.width() - 4) * ratio), 1), max(int((self.height() - 4) * ratio), 1)
        image = QImage(wide, high, QImage.Format.Format_RGB32)
        image.setDevicePixelRatio(ratio)
        image.fill(self._theme.color("window"))
        with painting(image) as painter:
            painter.scale(1 / ratio, 1 / ratio)
            step = self._size() / (LINES * wide)
            thick = high / LINES
            for line in range(LINES if self._runs else 0):
                for x in range(wide):
                    run = self._run_at(int((line * wide + x + 0.5) * step))
                    painter.fillRect(x, int(line * thick), 1, int(thick - 3 * ratio), self._colour(run))
        return image

    def _colour(self, number: int) -> QColor:
        run = self._runs[number]
        role, share = KINDS.get(run.kind, TENSORS[self._ordinals[number] % 2])
        return self._theme.tint(role, share)
