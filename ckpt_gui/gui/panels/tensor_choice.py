"""Which tensor a page is about: the one that is selected in the tree, until another is named here."""

from __future__ import annotations

from PySide6.QtCore import QStringListModel, Qt, Signal
from PySide6.QtGui import QFocusEvent
from PySide6.QtWidgets import QCompleter, QHBoxLayout, QLineEdit, QWidget

from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.tensors import TensorRef, full_keys
from ckpt_gui.gui.session import Session
from ckpt_gui.gui.snapshot import Snapshot
from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.widgets.units import GRID, plain_label

MOST_OFFERED = 100_000  # keys among which the box completes what is typed


class TensorChoice(QWidget):
    """A line with the tensor's key, completed while it is typed.

    Signals:
        chosen(ref): Another tensor; None if there is none.
    """

    chosen = Signal(object)

    def __init__(self, session: Session, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self._offered: Snapshot | None = None
        self.ref: TensorRef | None = None
        self.box = _Box()
        self.box.setFont(theme.fixed_font())
        self.box.setPlaceholderText(self.tr("Name a tensor, or select one in the tree"))
        self.box.setAccessibleName(self.tr("Tensor"))
        name = plain_label(self.tr("Tensor"), wrap=False)
        name.setBuddy(self.box)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(GRID)
        row.addWidget(name)
        row.addWidget(self.box, 1)
        self.setFocusProxy(self.box)
        self.box.focused.connect(self._offer, Qt.ConnectionType.QueuedConnection)  # once the page is made
        self.box.editingFinished.connect(self._on_typed)
        session.current_changed.connect(self._on_current)
        session.changed.connect(self._on_changed)
        session.closed.connect(lambda: self._on_changed(None))
        self._on_current(session.current)

    def choose(self, ref: TensorRef | None) -> None:
        """Turn to a tensor."""
        self.box.setText(safe_text(ref.full_key, 2000) if ref else "")
        self.box.setCursorPosition(0)
        self.box.setToolTip("")
        if ref is not self.ref:
            self.ref = ref
            self.chosen.emit(ref)

    def _on_current(self, ref: TensorRef | None) -> None:
        if ref is not None:
            self.choose(ref)

    def _on_changed(self, snapshot: Snapshot | None) -> None:
        """Keep the tensor while the same file is open."""
        if snapshot is None or (self.ref is not None and not _has(snapshot, self.ref)):
            self._offered = None
            self.choose(None)

    def _offer(self) -> None:
        """Make the completion, now that somebody wants to type."""
        snapshot = self._session.snapshot
        if snapshot is None or snapshot is self._offered:
            return
        self._offered = snapshot
        refs = snapshot.source.refs
        names = full_keys(refs) if len(refs) <= MOST_OFFERED else []
        completer = QCompleter(QStringListModel(names, self), self)
        completer.setFilterMode(Qt.MatchFlag.MatchContains)
        completer.setCaseSensitivity(Qt.CaseSensitivity.CaseInsensitive)
        completer.setMaxVisibleItems(12)
        completer.activated.connect(self._on_typed)
        self.box.setCompleter(completer)

    def _on_typed(self) -> None:
        snapshot, text = self._session.snapshot, self.box.text()
        refs = snapshot.source.refs if snapshot is not None and text else ()
        ref = next((ref for ref in refs if text.endswith(ref.key) and ref.full_key == text), None)
        if ref is not None:
            self.choose(ref)
        elif self._offered is not None:
            self.choose(self.ref)  # nothing of that name: what is shown stands


def _has(snapshot: Snapshot, wanted: TensorRef) -> bool:
    """Return True if a tensor is in a file; names first, as to compare 500,000 whole refs takes half a second."""
    return any(ref.key == wanted.key and ref == wanted for ref in snapshot.source.refs)


class _Box(QLineEdit):
    """A line that says when somebody is about to type."""

    focused = Signal()

    def focusInEvent(self, event: QFocusEvent) -> None:
        """Say so."""
        super().focusInEvent(event)
        self.focused.emit()
