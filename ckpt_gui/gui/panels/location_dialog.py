"""The box for the address of a checkpoint on a server: what can be read, and where passwords go (nowhere)."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QLineEdit, QVBoxLayout, QWidget

from ckpt_gui.core.remote.address import is_url
from ckpt_gui.gui.panels.parts import label
from ckpt_gui.gui.widgets.units import GRID, em


class LocationDialog(QDialog):
    """Asks for an address.

    Attributes:
        edit: Where it is typed; what was copied stands there already if it is one.
        buttons: Open and Cancel.

    Signals:
        chosen(address): It shall be opened.
    """

    chosen = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(self.tr("Open a location"))
        self.edit = QLineEdit()
        self.edit.setPlaceholderText("hf://org/model")
        self.edit.setAccessibleName(self.tr("Address of a checkpoint"))
        self.edit.setToolTip(self.tr("The address of a file, of a folder or of an index on a server"))
        kinds = self.tr(
            "hf://org/model, https://host/model.safetensors, s3://bucket/folder, gs://bucket/folder, "
            "ssh://user@host/folder"
        )
        note = self.tr(
            "Only headers are fetched, and later the tensors that are looked at. Sign in as their own tools do "
            "(environment, ~/.aws, the hub's token, an ssh agent); nothing secret in an address is kept or shown."
        )
        self.buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Open | QDialogButtonBox.StandardButton.Cancel)
        self.buttons.accepted.connect(self.accept)
        self.buttons.rejected.connect(self.reject)
        self.edit.textChanged.connect(self._enable)
        layout = QVBoxLayout(self)
        layout.setSpacing(GRID)
        above, below = label(kinds, wrap=True), label(note, muted=True, wrap=True)
        for text in (above, below):
            text.setMinimumWidth(em(self, 40))  # a wrapped text asks for the height of a narrow one else
        for widget in (above, self.edit, below):
            layout.addWidget(widget)
        layout.addStretch(1)
        layout.addWidget(self.buttons)
        copied = QGuiApplication.clipboard().text().strip()
        self.edit.setText(copied if is_url(copied) and len(copied.split()) == 1 else "")
        self.edit.selectAll()
        self._enable()

    def accept(self) -> None:
        """Tell the address, and close."""
        address = self.edit.text().strip()
        super().accept()
        self.chosen.emit(address)

    def _enable(self) -> None:
        self.buttons.button(QDialogButtonBox.StandardButton.Open).setEnabled(is_url(self.edit.text().strip()))
