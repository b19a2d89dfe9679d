"""The command palette: every action of the window and every key of the checkpoint, found by a few letters."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QCoreApplication, QEvent, QObject, Qt, Signal
from PySide6.QtGui import QAction, QKeyEvent, QKeySequence, QPalette
from PySide6.QtWidgets import (
    QDialog,
    QHeaderView,
    QLineEdit,
    QMenu,
    QMenuBar,
    QTreeWidget,
    QTreeWidgetItem,
    QVBoxLayout,
    QWidget,
)

from ckpt_gui.core.keys import safe_text
from ckpt_gui.dataclasses import dataclass
from ckpt_gui.gui.actions import WHY
from ckpt_gui.gui.models.palette import KEYS_BESIDE, Entry, KeyLookUp, ranked
from ckpt_gui.gui.panels.parts import label
from ckpt_gui.gui.widgets.units import GRID, em

_MOVES = (Qt.Key.Key_Up, Qt.Key.Key_Down, Qt.Key.Key_PageUp, Qt.Key.Key_PageDown)


@dataclass(frozen=True, slots=True)
class Listed:
    """An action of the window, and how the palette shows it."""

    entry: Entry
    action: QAction


class Palette(QDialog):
    """Finds a command or a key; `>` before the text finds commands only, `@` keys only.

    Args:
        window: The window whose actions are listed.
        keys: Keys of the open checkpoint.
        recent: Names of the commands used last, newest first.

    Attributes:
        box: Where the user types.
        list: What fits.

    Signals:
        used(id): A command was chosen.
        key_wanted(key): A key was chosen.
    """

    used = Signal(str)
    key_wanted = Signal(str)

    def __init__(self, window: QWidget, keys: KeyLookUp, recent: Sequence[str]) -> None:
        super().__init__(window)
        self._keys, self._recent = keys, recent
        self.listed = window_actions(window)
        self._by_id = {each.entry.id: each for each in self.listed}
        self.setWindowTitle(self.tr("Command palette"))
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self._build()
        self.box.textChanged.connect(self.fill)
        self.box.returnPressed.connect(self._choose)
        self.list.itemActivated.connect(self._choose)
        self.list.itemClicked.connect(self._choose)
        self.box.installEventFilter(self)
        self.fill()

    def _build(self) -> None:
        self.box = QLineEdit()
        self.box.setPlaceholderText(self.tr("A command, or @ and a part of a key"))
        self.box.setAccessibleName(self.tr("Command"))
        self.box.setAccessibleDescription(self.tr("> finds commands only, @ finds keys; Up and Down choose"))
        self.box.setClearButtonEnabled(True)
        for clear in self.box.findChildren(QWidget):
            clear.setAccessibleName(self.tr("Clear"))
        self.list = QTreeWidget()
        self.list.setAccessibleName(self.tr("What fits"))
        self.list.setHeaderHidden(True)
        self.list.setRootIsDecorated(False)
        self.list.setUniformRowHeights(True)
        self.list.setColumnCount(3)
        self.list.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        header = self.list.header()
        header.setStretchLastSection(False)
        header.setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        for column in (1, 2):
            header.setSectionResizeMode(column, QHeaderView.ResizeMode.ResizeToContents)
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.told = label(muted=True, wrap=True)
        self.told.setTextInteractionFlags(Qt.TextInteractionFlag.NoTextInteraction)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(GRID, GRID, GRID, GRID)
        layout.setSpacing(GRID)
        layout.addWidget(self.box)
        layout.addWidget(self.list, 1)
        layout.addWidget(self.told)
        room = self.screen().availableSize() * 0.9
        self.resize(min(em(self, 40), room.width()), min(em(self, 28), room.height()))

    def fill(self) -> None:
        """List what fits what is typed now."""
        typed = self.box.text()
        only_keys, only_commands = typed.startswith("@"), typed.startswith(">")
        wanted = typed[1:].strip() if only_keys or only_commands else typed.strip()
        self.list.ensurePolished()  # else the rows get the height of the style without our sheet
        self.list.clear()
        if not only_keys:
            self.list.addTopLevelItems([self._command(e) for e in ranked(wanted, self._entries(), self._recent)])
        if only_keys or (not only_commands and len(wanted) > 1):
            found = self._keys.find(wanted) if only_keys else self._keys.find(wanted, KEYS_BESIDE)
            self.list.addTopLevelItems([self._key(key) for key in found])
        first = self.list.topLevelItem(0)
        if first is not None:
            self.list.setCurrentItem(first)
        self.told.setText("" if first is not None else self.tr("Nothing fits."))
        self.told.setVisible(first is None)

    def _entries(self) -> list[Entry]:
        return [each.entry for each in self.listed]

    def _command(self, entry: Entry) -> QTreeWidgetItem:
        made = QTreeWidgetItem([entry.text, entry.why or entry.where, entry.keys])
        made.setData(0, Qt.ItemDataRole.UserRole, entry.id)
        said = [entry.text, entry.where, entry.keys, entry.why and self.tr("not now: {}").format(entry.why)]
        made.setData(0, Qt.ItemDataRole.AccessibleTextRole, ", ".join(word for word in said if word))
        made.setToolTip(0, self._by_id[entry.id].action.statusTip())
        muted = self.palette().brush(QPalette.ColorRole.PlaceholderText)
        for column in range(0 if entry.why else 1, 3):
            made.setForeground(column, muted)
        return made

    def _key(self, key: str) -> QTreeWidgetItem:
        made = QTreeWidgetItem([safe_text(key, 300), self.tr("Key"), ""])
        made.setData(1, Qt.ItemDataRole.UserRole, key)
        made.setData(0, Qt.ItemDataRole.AccessibleTextRole, self.tr("Key {}").format(safe_text(key, 300)))
        made.setForeground(1, self.palette().brush(QPalette.ColorRole.PlaceholderText))
        return made

    def _choose(self) -> None:
        """Close, and then do what is chosen: it may want the focus, or show a dialog of its own."""
        item = self.list.currentItem()
        if item is None:
            return
        key, name = item.data(1, Qt.ItemDataRole.UserRole), item.data(0, Qt.ItemDataRole.UserRole)
        if key is not None:
            self.accept()
            self.key_wanted.emit(key)
            return
        chosen = self._by_id[name]
        if chosen.entry.why:
            self.told.setText(chosen.entry.why)
            self.told.show()
            return
        self.accept()
        self.used.emit(name)
        chosen.action.trigger()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Move in the list while the user types."""
        if isinstance(event, QKeyEvent) and event.type() == QEvent.Type.KeyPress and event.key() in _MOVES:
            self.list.keyPressEvent(event)
            return True
        return super().eventFilter(watched, event)


def window_actions(window: QWidget) -> list[Listed]:
    """Return every action of a window that a user can choose, with where it stands."""
    places = _menu_places(window)
    found: list[Listed] = []
    taken: set[str] = set()
    for action in window.findChildren(QAction):
        text = _plain(action.text())
        if not is_choice(action) or _in_dialog(action, window):
            continue
        where = places.get(action, "") or _context(action, window)
        name = action.objectName() or f"{where}/{text}"
        if name not in taken:
            taken.add(name)
            found.append(Listed(Entry(name, text, where, _keys(action), _why(action)), action))
    return found


def is_choice(action: QAction) -> bool:
    """Return False for lines and titles of menus, for what Qt keeps within its widgets, and for places in a list."""
    return bool(
        not action.isSeparator()
        and not isinstance(action.menu(), QMenu)
        and _plain(action.text())
        and not action.objectName().startswith("_q_")
    )


def _menu_places(window: QWidget) -> dict[QAction, str]:
    """Return where each action stands in the menus of a window."""
    places: dict[QAction, str] = {}

    def walk(menu: QMenu, path: str) -> None:
        for action in menu.actions():
            inner = action.menu()
            if isinstance(inner, QMenu):
                walk(inner, f"{path} → {_plain(action.text())}")
            else:
                places.setdefault(action, path)

    for bar in window.findChildren(QMenuBar):
        for action in bar.actions():
            menu = action.menu()
            if isinstance(menu, QMenu):
                walk(menu, _plain(action.text()))
    return places


def _in_dialog(action: QAction, window: QWidget) -> bool:
    parent = action.parent()
    while parent is not None and parent is not window:
        if isinstance(parent, QDialog):
            return True
        parent = parent.parent()
    return False


def _context(action: QAction, window: QWidget) -> str:
    """Return the name of the nearest widget around an action that has one."""
    parent = action.parent()
    while parent is not None and parent is not window:
        if isinstance(parent, QWidget) and (name := parent.accessibleName() or parent.windowTitle()):
            return name
        parent = parent.parent()
    return ""


def _keys(action: QAction) -> str:
    return action.shortcut().toString(QKeySequence.SequenceFormat.NativeText)


def _why(action: QAction) -> str:
    if action.isEnabled():
        return ""
    return str(action.property(WHY) or QCoreApplication.translate("Palette", "Not possible now"))


def _plain(text: str) -> str:
    return text.replace("&&", "\0").replace("&", "").replace("\0", "&").strip()
