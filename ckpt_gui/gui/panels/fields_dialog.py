"""The editor of what lies beside the tensors: fields of the config, and the metadata of safetensors files."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QDialog, QHBoxLayout, QLineEdit, QTabWidget, QWidget

from ckpt_gui.core.edits import FieldEdit
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.fields import as_value, with_fields
from ckpt_gui.gui.language import said
from ckpt_gui.gui.models.field_rows import config_of, config_rows, metadata_rows
from ckpt_gui.gui.panels.parts import button, dialog_column, dialog_foot
from ckpt_gui.gui.snapshot import Snapshot
from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.widgets.fields_table import FieldsTable
from ckpt_gui.gui.widgets.units import em, plain_label, quoted


class FieldsDialog(QDialog):
    """Two tables, of which what is changed becomes edits of the plan.

    Signals:
        edited(config, metadata): The edits wanted, as tuples.
    """

    edited = Signal(object, object)

    def __init__(self, theme: Theme, snapshot: Snapshot, field: str = "", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._origin, self._raw = config_of(snapshot.source)
        rows = config_rows(snapshot.export, snapshot.decisions.policy.config)
        self.setWindowTitle(self.tr("Metadata and config"))
        self.config, self.metadata = FieldsTable(theme), FieldsTable(theme)
        self.config.setAccessibleName(self.tr("Fields of the config"))
        self.metadata.setAccessibleName(self.tr("Metadata of the safetensors files"))
        self.trouble = plain_label()
        self.search = QLineEdit()
        self.search.setPlaceholderText(self.tr("Find a field"))
        self.search.setAccessibleName(self.tr("Find a field"))
        self.search.setToolTip(self.tr("Show only fields whose names hold this text"))
        self.search.setClearButtonEnabled(True)
        self.ok_button = button(self.tr("Take over"), kind="primary", tip=self.tr("Make these steps of the plan"))
        self.cancel_button = button(self.tr("Cancel"), tip=self.tr("Change nothing (Esc)"))
        self.add_button = button(self.tr("Add a field"), tip=self.tr("A new row, to be named and filled"))
        self.remove_button = button(self.tr("Take out"), tip=self.tr("Write the selected field no more (Delete)"))
        self.back_button = button(self.tr("As it was"), tip=self.tr("Take the change of the selected field back"))
        self._lay_out()
        self.config.show_rows(rows)
        self.metadata.show_rows(metadata_rows(snapshot.source, snapshot.decisions.target.metadata))
        self._connect()
        if field:
            self.config.go_to(field)

    def _lay_out(self) -> None:
        self.tabs = QTabWidget()
        self.tabs.addTab(self.config, said(self._origin) or self.tr("Config"))
        self.tabs.addTab(self.metadata, self.tr("Metadata"))
        tools = QHBoxLayout()
        tools.addWidget(self.search, 1)
        for press in (self.add_button, self.remove_button, self.back_button):
            tools.addWidget(press)
        note = plain_label(
            self.tr("The files stay as they are: an export is written as if these values had been there."), muted=True
        )
        box = dialog_column(self)
        box.addLayout(tools)
        box.addWidget(self.tabs, 1)
        box.addWidget(note)
        box.addLayout(dialog_foot(self.trouble, self.cancel_button, self.ok_button))
        self.resize(em(self, 44), em(self, 32))

    def _connect(self) -> None:
        self.search.textChanged.connect(self.config.show_only)
        self.search.textChanged.connect(self.metadata.show_only)
        self.add_button.clicked.connect(lambda: self._table.add_row())
        self.remove_button.clicked.connect(lambda: self._table.take_out())
        self.back_button.clicked.connect(lambda: self._table.take_back())
        self.config.changed.connect(self._judge)
        self.metadata.changed.connect(self._judge)
        self.ok_button.clicked.connect(self._accept)
        self.cancel_button.clicked.connect(self.reject)

    @property
    def _table(self) -> FieldsTable:
        return self.config if self.tabs.currentWidget() is self.config else self.metadata

    def config_edits(self) -> tuple[FieldEdit, ...]:
        """Return the edits of the config as they stand in the table."""
        return tuple(FieldEdit(n, None if v is None else as_value(v)) for n, v in self.config.edits().items())

    def metadata_edits(self) -> tuple[FieldEdit, ...]:
        """Return the edits of the metadata."""
        return tuple(FieldEdit(name, value) for name, value in self.metadata.edits().items())

    def _judge(self) -> None:
        """Say what is wrong with a value, where it is typed."""
        text = ""
        try:
            with_fields(self._raw, self.config_edits(), self._origin or "config.json")
        except CheckpointError as error:
            text = quoted(error.message)
        self.trouble.setText(text)
        self.trouble.setStyleSheet(f"color: {self._theme.color('red').name()};")
        self.ok_button.setEnabled(not text)

    def _accept(self) -> None:
        config, metadata = self.config_edits(), self.metadata_edits()
        self.accept()
        self.edited.emit(config, metadata)
