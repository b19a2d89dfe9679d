"""Shares of a whole as bars: a name at the left, a bar, the figures at the right. A row can lead somewhere."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QAbstractButton, QSizePolicy, QVBoxLayout, QWidget

from ckpt_gui.core.keys import safe_text
from ckpt_gui.gui.language import local, said
from ckpt_gui.gui.models.shares import Bar
from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.widgets.painting import painting
from ckpt_gui.gui.widgets.units import GRID, em, tip_text

NAME_SHARE, KEY_SHARE = 0.28, 0.46  # of the width, for names and for keys, where the figures leave so much
BAR_EMS = 3.0  # what a bar keeps before names are cut
LEAST_BAR = 2.0  # pixels: a share that is there is seen


class Bars(QWidget):
    """Rows of bars, as long as their sizes beside the largest.

    Args:
        theme: Colours.
        colour: Role of the bars' colour.
        fixed: True where names are keys.
        live: Whether a row can be clicked.
        parent: The widget around it.

    Signals:
        chosen(name): A row was clicked, or Space was pressed on it.
    """

    chosen = Signal(str)

    def __init__(
        self,
        theme: Theme,
        colour: str = "blue",
        *,
        fixed: bool = False,
        live: bool = False,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._theme, self._colour, self._fixed, self._live = theme, colour, fixed, live
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(0)
        self.rows: list[_Row] = []

    def show_bars(self, bars: Sequence[Bar]) -> None:
        """Show other rows; those that are there are used again."""
        while len(self.rows) < len(bars):
            row = _Row(self._theme, self._colour, fixed=self._fixed, live=self._live)
            row.clicked.connect(lambda _=False, row=row: self.chosen.emit(row.bar.name))
            self._column.addWidget(row)
            self.rows.append(row)
        whole = max((bar.size for bar in bars), default=0.0)
        longest = max((bar.text for bar in bars), key=len, default="")
        for number, row in enumerate(self.rows):
            row.setVisible(number < len(bars))
            if number < len(bars):
                row.show_bar(bars[number], whole, longest)


class _Row(QAbstractButton):
    """One bar; it takes the focus where it leads somewhere."""

    def __init__(self, theme: Theme, colour: str, *, fixed: bool, live: bool) -> None:
        super().__init__()
        self._theme, self._colour, self._live = theme, colour, live
        self.bar, self._whole, self._longest = Bar("", 0, ""), 1.0, ""
        self._name_share = KEY_SHARE if fixed else NAME_SHARE
        if fixed:
            self.setFont(theme.fixed_font())
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus if live else Qt.FocusPolicy.NoFocus)
        if live:
            self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        theme.changed.connect(self.update)

    def sizeHint(self) -> QSize:
        """Return the height of a line with some air."""
        return QSize(em(self, 20), em(self, 1.55))

    def show_bar(self, bar: Bar, whole: float, longest: str) -> None:
        """Show a row; its bar is full where its size is the whole; all figures get the room of the longest."""
        self.bar, self._whole, self._longest = bar, whole, longest
        name = safe_text(said(bar.name), 200)
        self.setAccessibleName(f"{name}: {local(bar.text)}. {said(bar.tip)}".strip())
        self.setToolTip(tip_text(f"{bar.name}\n{bar.tip}".strip()))
        self.setAccessibleDescription(self.tr("Shows these tensors in the tree") if self._live else "")
        self.update()

    def widths(self) -> tuple[float, float]:
        """Return the room for the name and for the figures; a figure is never cut, a name may be."""
        figures = self.fontMetrics().horizontalAdvance(f"{self._longest}0")
        rest = self.width() - figures - em(self, BAR_EMS) - 3 * GRID
        return max(min(self.width() * self._name_share, rest), 0.0), figures

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Draw the row."""
        with painting(self, smooth=True) as painter:
            theme, live = self._theme, self._live
            if live and (self.underMouse() or self.hasFocus()):
                painter.setPen(QPen(theme.color("focus"), 2) if self.hasFocus() else Qt.PenStyle.NoPen)
                painter.setBrush(theme.color("hover"))
                painter.drawRoundedRect(QRectF(self.rect()).adjusted(1, 1, -1, -1), 4, 4)
            metrics, edge = self.fontMetrics(), GRID // 2
            name_width, value_width = self.widths()
            area = QRectF(edge, 0, name_width, self.height())
            painter.setPen(theme.color("text"))
            name = metrics.elidedText(
                safe_text(said(self.bar.name), 200), Qt.TextElideMode.ElideMiddle, int(name_width)
            )
            painter.drawText(area, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter, name)
            track = QRectF(area.right() + GRID, 0, self.width() - area.right() - value_width - 2 * GRID - edge, 0)
            thick = em(self, 0.55)
            track.setTop((self.height() - thick) / 2)
            track.setHeight(thick)
            self._paint_bar(painter, track)
            painter.setPen(theme.color("muted"))
            end = QRectF(self.width() - value_width - edge, 0, value_width, self.height())
            painter.drawText(end, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, local(self.bar.text))

    def _paint_bar(self, painter: QPainter, track: QRectF) -> None:
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(self._theme.color("raised"))
        painter.drawRoundedRect(track, 2, 2)
        if self.bar.size > 0 and self._whole > 0:
            length = max(track.width() * self.bar.size / self._whole, LEAST_BAR)
            painter.setBrush(self._theme.color(self._colour))
            painter.drawRoundedRect(QRectF(track.left(), track.top(), length, track.height()), 2, 2)
