"""All shortcuts of the window: made from its actions, searched by name or key, and each can be changed."""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QAction, QKeyEvent, QKeySequence
from PySide6.QtWidgets import (
    QAbstractItemView,
    QDialog,
    QDialogButtonBox,
    QHBoxLayout,
    QHeaderView,
    QKeySequenceEdit,
    QLineEdit,
    QTreeWidget,
    QTreeWidgetItem,
    QVBoxLayout,
    QWidget,
)  # fmt: skip

from ckpt_gui.gui.actions import ACTIONS, give_keys, usual_keys
from ckpt_gui.gui.panels.palette import Listed, window_actions
from ckpt_gui.gui.panels.parts import button, label
from ckpt_gui.gui.widgets.units import GRID, em

_NATIVE = QKeySequence.SequenceFormat.NativeText
_OWN = frozenset(spec.id for spec in ACTIONS)  # those that can be changed: others are Qt's, or come and go


class ShortcutsDialog(QDialog):
    """Lists the actions with their keys, and gives them others.

    Args:
        window: The window whose actions are listed.
        changed: What differs from the shortcuts delivered: name of the action → keys.

    Signals:
        changed(shortcuts): The same, after a change.
    """

    changed = Signal(dict)

    def __init__(self, window: QWidget, changed: dict[str, list[str]]) -> None:
        super().__init__(window)
        self._changed = dict(changed)
        self.listed = [each for each in window_actions(window) if each.action.objectName() in _OWN or each.entry.keys]
        self.setWindowTitle(self.tr("Keyboard shortcuts"))
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self._build()
        self._fill()
        self.search.textChanged.connect(self._search)
        self.list.currentItemChanged.connect(self._on_current)
        self.edit.editingFinished.connect(self._on_edited)
        self.usual_button.clicked.connect(self._on_usual)
        self.none_button.clicked.connect(lambda: self._give([]))
        self._on_current()

    def _build(self) -> None:
        self.search = QLineEdit()
        self.search.setPlaceholderText(self.tr("Name of a command, or a key such as Ctrl+E"))
        self.search.setAccessibleName(self.tr("Search shortcuts"))
        self.list = QTreeWidget()
        self.list.setAccessibleName(self.tr("Shortcuts"))
        self.list.setHeaderLabels([self.tr("Command"), self.tr("Where"), self.tr("Keys")])
        self.list.setRootIsDecorated(False)
        self.list.setUniformRowHeights(True)
        self.list.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        header = self.list.header()
        header.setStretchLastSection(False)
        header.setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        for column in (1, 2):
            header.setSectionResizeMode(column, QHeaderView.ResizeMode.ResizeToContents)
        self.edit = _KeysEdit()
        self.edit.setMaximumSequenceLength(1)
        self.edit.setAccessibleName(self.tr("New keys"))
        self.edit.setToolTip(self.tr("Press the keys that shall call the selected command"))
        for inner in self.edit.findChildren(QLineEdit):
            inner.setAccessibleName(self.tr("New keys"))
        self.usual_button = button(self.tr("As delivered"))
        self.none_button = button(self.tr("No keys"))
        self.told = label(muted=True, wrap=True)
        line = QHBoxLayout()
        line.setSpacing(GRID)
        line.addWidget(self.edit, 1)
        line.addWidget(self.usual_button)
        line.addWidget(self.none_button)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        buttons.rejected.connect(self.close)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(2 * GRID, 2 * GRID, 2 * GRID, 2 * GRID)
        layout.setSpacing(GRID)
        layout.addWidget(self.search)
        layout.addWidget(self.list, 1)
        layout.addLayout(line)
        layout.addWidget(self.told)
        layout.addWidget(buttons)
        room = self.screen().availableSize() * 0.9
        self.resize(min(em(self, 52), room.width()), min(em(self, 36), room.height()))

    def _fill(self) -> None:
        self.list.ensurePolished()  # else the rows get the height of the style without our sheet
        self._items: list[tuple[QTreeWidgetItem, Listed]] = []
        for each in self.listed:
            item = QTreeWidgetItem([each.entry.text, each.entry.where, _shown(each.action.shortcuts())])
            item.setToolTip(0, each.action.statusTip())
            self._items.append((item, each))
        self.list.addTopLevelItems([item for item, _ in self._items])
        if self._items:
            self.list.setCurrentItem(self._items[0][0])

    def _search(self, text: str) -> None:
        wanted = text.casefold().split()
        for item, _ in self._items:
            said = " ".join(item.text(column) for column in range(3)).casefold()
            item.setHidden(not all(word in said for word in wanted))

    def current(self) -> tuple[QTreeWidgetItem, Listed] | None:
        """Return the row that is selected, and its action."""
        item = self.list.currentItem()
        return next(((it, each) for it, each in self._items if it is item), None)

    def _on_current(self) -> None:
        found = self.current()
        can = found is not None and found[1].action.objectName() in _OWN
        for widget in (self.edit, self.usual_button, self.none_button):
            widget.setEnabled(can)
        self.edit.setKeySequence(found[1].action.shortcut() if found is not None else QKeySequence())
        self.told.setText("" if can or found is None else self.tr("These keys belong to the page or the system."))

    def _on_edited(self) -> None:
        keys, found = self.edit.keySequence(), self.current()
        if found is None or keys.isEmpty() or keys == found[1].action.shortcut():
            return
        if (taken := self.clash(keys, found[1].action)) is not None:
            self.edit.setKeySequence(found[1].action.shortcut())
            self.told.setText(
                self.tr("{keys} calls “{command}” already.").format(
                    keys=keys.toString(_NATIVE), command=taken.entry.text
                )
            )
            return
        self._give([keys])

    def clash(self, keys: QKeySequence, action: QAction) -> Listed | None:
        """Return another action that some keys call already."""
        return next(
            (each for each in self.listed if each.action is not action and keys in each.action.shortcuts()), None
        )

    def _on_usual(self) -> None:
        found = self.current()
        if found is None:
            return
        keys = usual_keys(found[1].action.objectName())
        taken = [clash for key in keys if (clash := self.clash(key, found[1].action)) is not None]
        if taken:
            self.told.setText(
                self.tr("The usual keys call “{command}” now; change that first.").format(command=taken[0].entry.text)
            )
            return
        self._give(keys)

    def _give(self, keys: list[QKeySequence]) -> None:
        found = self.current()
        if found is None:
            return
        item, each = found
        name = each.action.objectName()
        give_keys(each.action, keys)
        item.setText(2, _shown(keys))
        self.edit.setKeySequence(each.action.shortcut())
        self._changed.pop(name, None)
        if keys != usual_keys(name):
            self._changed[name] = [key.toString(QKeySequence.SequenceFormat.PortableText) for key in keys]
        self.told.setText(self.tr("Changed.") if name in self._changed else self.tr("As delivered."))
        self.changed.emit(dict(self._changed))


class _KeysEdit(QKeySequenceEdit):
    """Takes the keys that are pressed, but for Tab and Shift+Tab, which lead on: else nobody got out by keyboard."""

    def event(self, event: QEvent) -> bool:
        """Lead on."""
        if isinstance(event, QKeyEvent) and event.key() in (Qt.Key.Key_Tab, Qt.Key.Key_Backtab):
            if event.type() == QEvent.Type.KeyPress:
                self.focusNextPrevChild(event.key() == Qt.Key.Key_Tab)
            return True
        return super().event(event)


def _shown(keys: Iterable[QKeySequence]) -> str:
    return "   ".join(key.toString(_NATIVE) for key in keys)
