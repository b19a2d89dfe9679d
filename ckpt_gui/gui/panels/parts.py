"""Small building blocks of the panels: labels, cards, buttons, and a layout that wraps."""

from __future__ import annotations

from PySide6.QtCore import QMargins, QPoint, QRect, QSize, Qt
from PySide6.QtGui import QFont, QFontMetrics, QKeyEvent, QResizeEvent
from PySide6.QtWidgets import (
    QDialog,
    QDockWidget,
    QFrame,
    QHBoxLayout,
    QLabel,
    QLayout,
    QLayoutItem,
    QPushButton,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)  # fmt: skip

from ckpt_gui.core.keys import safe_text
from ckpt_gui.gui.language import said
from ckpt_gui.gui.widgets.units import GRID, tip_text


def label(text: str = "", *, size: float = 1.0, bold: bool = False, muted: bool = False, wrap: bool = False) -> QLabel:
    """Return a plain-text label; its size is relative to the application's font.

    A grid works out its least height at the least widths of its cells, so a label that wraps gets one that is usual.
    """
    made = QLabel(said(text))
    made.setTextFormat(Qt.TextFormat.PlainText)
    made.setWordWrap(wrap)
    font = QFont(made.font())
    font.setPointSizeF(font.pointSizeF() * size)
    font.setWeight(QFont.Weight.DemiBold if bold else QFont.Weight.Normal)
    made.setFont(font)
    if muted:
        made.setProperty("tone", "muted")
    if wrap:
        made.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Minimum)
        made.setMinimumWidth(9 * made.fontMetrics().height())
    return made


def button(text: str, *, kind: str = "", tip: str = "") -> QPushButton:
    """Return a push button; kind `primary` for the one that matters, `quiet` for those without a frame."""
    text = said(text)
    made = Button(text)
    made.setAccessibleName(text.replace("&&", "\0").replace("&", "").replace("\0", "&"))
    if kind:
        made.setProperty("kind", kind)
    if tip:
        made.setToolTip(tip)
    made.setAutoDefault(kind == "primary")
    return made


def dialog_column(dialog: QDialog) -> QVBoxLayout:
    """Give a dialog a column for its parts, with room around and between them."""
    made = QVBoxLayout(dialog)
    made.setContentsMargins(2 * GRID, 2 * GRID, 2 * GRID, 2 * GRID)
    made.setSpacing(12)
    return made


def dialog_foot(words: QWidget, *buttons: QPushButton) -> QHBoxLayout:
    """Return the last line of a dialog: what there is to say, and the buttons that leave it."""
    made = QHBoxLayout()
    made.addWidget(words, 1)
    for each in buttons:
        made.addWidget(each)
    return made


def set_look(widget: QWidget, name: str, value: object) -> None:
    """Set a property that the style sheet goes by, and let it look again."""
    if widget.property(name) != value:
        widget.setProperty(name, value)
        widget.style().unpolish(widget)
        widget.style().polish(widget)


def clear(layout: QLayout) -> None:
    """Take every widget out of a layout, nested layouts included, and let Qt delete it."""
    while (item := layout.takeAt(0)) is not None:
        widget, inner = item.widget(), item.layout()
        if widget is not None:
            widget.hide()
            widget.setParent(None)
            widget.deleteLater()
        elif inner is not None:
            clear(inner)


class Button(QPushButton):
    """A button that Return presses, too, when it has the focus: Qt's own does that in dialogs only."""

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Press it."""
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and self.hasFocus():
            self.click()
        else:
            super().keyPressEvent(event)


class Card(QFrame):
    """A surface with a thin border; `body` is its layout."""

    def __init__(self, parent: QWidget | None = None, *, padding: int = 2 * GRID) -> None:
        super().__init__(parent)
        self.setProperty("card", "true")
        self.body = QVBoxLayout(self)
        self.body.setContentsMargins(padding, padding, padding, padding)
        self.body.setSpacing(GRID)


class DockTitle(QWidget):
    """The title of a dock, with a button that hides it."""

    def __init__(self, dock: QDockWidget) -> None:
        super().__init__(dock)
        line = QHBoxLayout(self)
        line.setContentsMargins(int(1.5 * GRID), GRID // 2, GRID // 2, 0)
        line.addWidget(label(dock.windowTitle(), bold=True, muted=True), 1)
        hide = button("✕", kind="quiet", tip=self.tr("Hide; the View menu shows it again"))
        hide.setAccessibleName(self.tr("Hide {}").format(dock.windowTitle()))
        hide.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        hide.clicked.connect(dock.hide)
        line.addWidget(hide)


class ElidedLabel(QLabel):
    """A label of one line that cuts its text in the middle to fit, and shows all of it as a tool tip."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._text = ""
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)

    def set_text(self, text: str) -> None:
        """Show a text."""
        self._text = safe_text(said(text), 1000)
        self.setToolTip(tip_text(text, 1000))
        self._elide()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Cut anew."""
        super().resizeEvent(event)
        self._elide()

    def _elide(self) -> None:
        metrics = QFontMetrics(self.font())
        self.setText(metrics.elidedText(self._text, Qt.TextElideMode.ElideMiddle, max(0, self.width() - 2)))


class FlowLayout(QLayout):
    """Places items side by side and goes on in the next line, like words.

    Qt asks for the same sizes dozens of times while it arranges a window: they are remembered until something changes.
    """

    def __init__(self, parent: QWidget | None = None, spacing: int = GRID) -> None:
        super().__init__(parent)
        self._items: list[QLayoutItem] = []
        self._heights: dict[int, int] = {}
        self._least: QSize | None = None
        self.setContentsMargins(QMargins(0, 0, 0, 0))
        self.setSpacing(spacing)

    def addItem(self, item: QLayoutItem) -> None:
        """Add an item at the end."""
        self._items.append(item)
        self.invalidate()

    def count(self) -> int:
        """Return the number of items."""
        return len(self._items)

    def itemAt(self, index: int) -> QLayoutItem | None:
        """Return an item, or None past the end."""
        return self._items[index] if 0 <= index < len(self._items) else None

    def takeAt(self, index: int) -> QLayoutItem | None:
        """Remove and return an item, or None past the end."""
        return self._items.pop(index) if 0 <= index < len(self._items) else None

    def expandingDirections(self) -> Qt.Orientation:
        """Return nothing: it takes the space that it is given."""
        return Qt.Orientation(0)

    def hasHeightForWidth(self) -> bool:
        """Return True: fewer columns need more lines."""
        return True

    def heightForWidth(self, width: int) -> int:
        """Return the height that a width needs."""
        if width not in self._heights:
            self._heights[width] = self._arrange(QRect(0, 0, width, 0), apply=False)
        return self._heights[width]

    def invalidate(self) -> None:
        """Forget what is remembered: an item has changed."""
        super().invalidate()
        self._heights.clear()
        self._least = None

    def setGeometry(self, rect: QRect) -> None:
        """Place the items."""
        super().setGeometry(rect)
        self._arrange(rect, apply=True)

    def sizeHint(self) -> QSize:
        """Return the least size."""
        return self.minimumSize()

    def minimumSize(self) -> QSize:
        """Return the size of the largest item."""
        if self._least is None:
            self._least = QSize()
            for item in self._items:
                self._least = self._least.expandedTo(item.minimumSize())
        return QSize(self._least)

    def _arrange(self, rect: QRect, *, apply: bool) -> int:
        x, y, line = rect.x(), rect.y(), 0
        for item in self._items:
            if item.isEmpty():
                continue
            hint = item.sizeHint()
            if x > rect.x() and x + hint.width() > rect.right() + 1:
                x, y, line = rect.x(), y + line + self.spacing(), 0
            if apply:
                item.setGeometry(QRect(QPoint(x, y), hint))
            x += hint.width() + self.spacing()
            line = max(line, hint.height())
        return y + line - rect.y()
