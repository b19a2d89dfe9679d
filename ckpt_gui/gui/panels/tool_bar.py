"""The tool bar, and the menu of recent checkpoints that hangs on it."""

from __future__ import annotations

import os
from collections.abc import Mapping

from PySide6.QtCore import QEvent, QObject, Qt, Signal
from PySide6.QtGui import QAction, QResizeEvent
from PySide6.QtWidgets import QMenu, QSizePolicy, QToolBar, QToolButton, QWidget

from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.text import plural
from ckpt_gui.gui.panels.compare_box import CompareBox
from ckpt_gui.gui.session import Session
from ckpt_gui.gui.settings import Settings
from ckpt_gui.gui.snapshot import Snapshot
from ckpt_gui.gui.widgets.units import GRID, quoted, tip_text
from ckpt_gui.gui.wording import count_text

# What is left out, one after the other, where the letters are large or the window is narrow: whether the box of the
# comparison has its name beside it, and whether the walk over the differences has words beside its arrows.
_ROOM: tuple[tuple[bool, bool], ...] = ((True, True), (False, True), (False, False))


class ToolBar(QToolBar):
    """Opens, walks over the differences, fixes and exports."""

    def __init__(self, session: Session, actions: Mapping[str, QAction], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(self.tr("Tools"))
        self.setObjectName("tools")
        self.setMovable(False)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.PreventContextMenu)
        self.open_button = _tool(self.tr("Open"), actions["open-file"])
        self.open_button.setPopupMode(QToolButton.ToolButtonPopupMode.MenuButtonPopup)
        self.previous_button = _tool("", actions["previous"])
        self.next_button = _tool("", actions["next"])
        self.export_button = _tool(self.tr("Export…"), actions["export"])
        self.fix_button = _tool(self.tr("Fix…"), actions["fix"], kind="primary")
        space = QWidget()
        space.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self.compare_box = CompareBox()
        self._parts: tuple[QWidget, ...] = (
            self.open_button, self.previous_button, self.next_button, self.compare_box, self.export_button,
            self.fix_button,
        )  # fmt: skip
        for widget in (*self._parts[:4], space, *self._parts[4:]):
            self.addWidget(widget)
        self._wanted = 0  # the width that all parts wanted when room was made
        self._make_room()
        session.changed.connect(self.show_snapshot)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Leave out words where what writes would not fit any more."""
        super().resizeEvent(event)
        self._make_room()

    def event(self, event: QEvent) -> bool:
        """Do the same where a part wants more or less than before: each takes larger letters when its turn comes."""
        done = super().event(event)
        if event.type() == QEvent.Type.LayoutRequest and self._least() != self._wanted:
            self._make_room()
        return done

    def _least(self) -> int:
        return sum(part.minimumSizeHint().width() for part in self._parts)

    def _make_room(self) -> None:
        """Show as many words as fit: Export and Fix shall never go behind the edge."""
        edges = GRID * (len(self._parts) + 4)  # the style sheet's padding, and what it has between the parts
        for named, worded in _ROOM:
            self.compare_box.name.setVisible(named)
            self.previous_button.setText(f"◀  {self.tr('Previous')}" if worded else "◀")
            self.next_button.setText(f"{self.tr('Next')}  ▶" if worded else "▶")
            self._wanted = self._least()
            if edges + self._wanted <= self.width():
                return

    def show_snapshot(self, snapshot: Snapshot) -> None:
        """Say how much there is to fix, and what stands in the way."""
        number, blocked = tensors_to_fix(snapshot), snapshot.export.blocked
        self.fix_button.setText(self.tr("Fix {}…").format(count_text(number)) if number else self.tr("Fix…"))
        self.fix_button.setToolTip(
            tip_text(self.tr("Blocked: {}").format(quoted(blocked[0].message)), 600)
            if blocked
            else self.tr("See the plan that changes {}, and write it").format(plural(number, "tensor"))
        )
        self._make_room()


class RecentFiles(QObject):
    """Fills a menu with the checkpoints opened last, each time it opens.

    Signals:
        chosen(path): The user wants to open one.
        forgotten(): The list is empty now.
    """

    chosen = Signal(str)
    forgotten = Signal()

    def __init__(self, menu: QMenu, settings: Settings, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._menu, self._settings = menu, settings
        menu.setToolTipsVisible(True)
        menu.aboutToShow.connect(self.fill)

    def fill(self) -> None:
        """List what is remembered now; what is no longer there is grey."""
        self._menu.clear()
        for path in self._settings.recents():
            name = safe_text(os.path.basename(os.path.normpath(path)) or path, 60)
            action = self._menu.addAction(name.replace("&", "&&"))
            action.setToolTip(tip_text(path))
            action.setEnabled(os.path.exists(path))
            action.triggered.connect(lambda _checked=False, path=path: self.chosen.emit(path))
        if self._menu.isEmpty():
            self._menu.addAction(self.tr("Nothing yet")).setEnabled(False)
        else:
            self._menu.addSeparator()
            self._menu.addAction(self.tr("Forget these"), self._forget)

    def _forget(self) -> None:
        self._settings.clear_recents()
        self.forgotten.emit()


def tensors_to_fix(snapshot: Snapshot) -> int:
    """Return how many stored tensors an export changes or leaves out for a reason of the layout."""
    counts = snapshot.diff.counts
    changed = sum(counts.get(state, 0) for state in ("renamed", "transform", "dtype"))
    return changed + sum(d.kind in ("redundant", "buffer", "user") for d in snapshot.export.dropped)


def _tool(text: str, action: QAction, kind: str = "") -> QToolButton:
    """Return a button that does what an action does, under a text of its own."""
    made = QToolButton()
    made.setText(text)
    made.setToolTip(action.toolTip())
    made.setAccessibleName(action.text().replace("&", ""))
    made.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
    made.setEnabled(action.isEnabled())
    if kind:
        made.setProperty("kind", kind)
    made.clicked.connect(action.trigger)
    action.enabledChanged.connect(made.setEnabled)
    return made
