"""How states are painted: a chip that switches one on and off, and the state column of the tree."""

from __future__ import annotations

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QRect, QRectF, QSize, Qt
from PySide6.QtGui import QFont, QFontMetrics, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import (
    QAbstractButton,
    QSizePolicy,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QWidget,
)  # fmt: skip

from ckpt_gui.core.text import plural
from ckpt_gui.gui.language import said
from ckpt_gui.gui.models.key_looks import STATES_ROLE
from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.widgets.painting import painting
from ckpt_gui.gui.wording import count_text

GAP = 8


class StateChip(QAbstractButton):
    """A toggle for one state, with its glyph and a live count."""

    def __init__(self, state: str, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.state = state
        self._theme, self._count = theme, 0
        style = theme.state(state)
        self.setCheckable(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.setAttribute(Qt.WidgetAttribute.WA_Hover)
        self.setToolTip(said(style.meaning))
        self.set_count(0)

    def set_count(self, count: int) -> None:
        """Show how many rows are in this state."""
        self._count = count
        style = self._theme.state(self.state)
        self.setText(f"{style.glyph}  {count_text(count)} {said(style.word)}")
        self.setAccessibleName(said(f"show only {style.word}: {plural(count, 'tensor')}"))
        self.updateGeometry()
        self.update()

    @property
    def count(self) -> int:
        """The count that is shown."""
        return self._count

    def sizeHint(self) -> QSize:
        """Return the size of the text with room around it."""
        metrics = self.fontMetrics()
        return QSize(metrics.horizontalAdvance(self.text()) + 3 * GAP, metrics.height() + GAP + 2)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint a pill: filled when switched on, with a ring when it has the focus."""
        theme, role = self._theme, f"state.{self.state}"
        with painting(self, smooth=True) as painter:
            border = theme.color("border")
            ground = theme.color("hover" if self.underMouse() else "surface")
            if self.isChecked():
                border, ground = theme.color(role), theme.tint(role, 0.16)
            if self.hasFocus():
                border = theme.color("focus")
            painter.setPen(QPen(border, 2 if self.hasFocus() else 1))
            painter.setBrush(ground)
            box = QRectF(self.rect()).adjusted(1, 1, -1, -1)
            painter.drawRoundedRect(box, box.height() / 2, box.height() / 2)
            painter.setPen(theme.color(role if self._count else "muted"))
            painter.drawText(self.rect(), Qt.AlignmentFlag.AlignCenter, self.text())


class StateDelegate(QStyledItemDelegate):
    """Paints the state of a row in words, and the states below a group as glyphs with counts."""

    def __init__(self, theme: Theme, view: QWidget) -> None:
        super().__init__(view)
        self._theme, self._view = theme, view

    def paint(
        self, painter: QPainter, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> None:
        """Paint the ground as the style does, then the pieces."""
        box = QStyleOptionViewItem(option)
        self.initStyleOption(box, index)
        box.text = ""
        style = self._view.style()
        style.drawControl(QStyle.ControlElement.CE_ItemViewItem, box, painter, self._view)
        states: tuple[tuple[str, int], ...] = index.data(STATES_ROLE) or ()
        painter.save()
        painter.setClipRect(option.rect)
        rect = option.rect.adjusted(GAP, 0, -2, 0)
        if len(states) == 1 and not states[0][1]:
            self._paint_row(painter, rect, box.font, states[0][0])
        else:
            self._paint_group(painter, rect, box.font, states)
        painter.restore()

    def _paint_row(self, painter: QPainter, rect: QRect, font: QFont, state: str) -> None:
        style, colour = self._theme.state(state), self._theme.color(f"state.{state}")
        metrics = QFontMetrics(font)
        if state == "error":
            width = metrics.horizontalAdvance(said(style.word)) + metrics.height() + 2 * GAP
            ground = QRect(rect.x() - 4, rect.y() + 2, width, rect.height() - 4)
            painter.fillRect(ground, self._theme.color("error_ground"))
        painter.setPen(colour)
        glyph_width = round(metrics.height() * 1.1)
        centre = Qt.AlignmentFlag.AlignHCenter | Qt.AlignmentFlag.AlignVCenter
        painter.setFont(_bold(font))
        painter.drawText(QRect(rect.x(), rect.y(), glyph_width, rect.height()), centre, style.glyph)
        painter.setFont(font)
        painter.drawText(rect.adjusted(glyph_width + 4, 0, 0, 0), Qt.AlignmentFlag.AlignVCenter, said(style.word))

    def _paint_group(self, painter: QPainter, rect: QRect, font: QFont, states: tuple[tuple[str, int], ...]) -> None:
        metrics = QFontMetrics(font)
        glyph_width = round(metrics.height())
        centre = Qt.AlignmentFlag.AlignHCenter | Qt.AlignmentFlag.AlignVCenter
        x = rect.x()
        for state, count in states:
            text = count_text(count)
            painter.setPen(self._theme.color(f"state.{state}"))
            painter.setFont(_bold(font))
            painter.drawText(QRect(x, rect.y(), glyph_width, rect.height()), centre, self._theme.state(state).glyph)
            painter.setFont(font)
            x += glyph_width + 1
            painter.drawText(QRect(x, rect.y(), rect.right() - x, rect.height()), Qt.AlignmentFlag.AlignVCenter, text)
            x += metrics.horizontalAdvance(text) + GAP // 2 + 1


def _bold(font: QFont) -> QFont:
    made = QFont(font)
    made.setBold(True)
    return made
