"""Reads the folder from which an export takes config and tokenizer, in a job."""

from __future__ import annotations

from typing import cast

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QFileDialog, QWidget

from ckpt_gui.core.formats.sidecars import read_sidecars
from ckpt_gui.core.keys import safe_text
from ckpt_gui.gui.session import Session


class BaseFolder(QObject):
    """Makes a folder a decision of the session.

    Signals:
        failed(error): It can not be read.
    """

    failed = Signal(object)

    def __init__(self, session: Session, dialog: QWidget) -> None:
        super().__init__(dialog)
        self._session = session

    def choose(self) -> None:
        """Let the user name one."""
        title = self.tr("Folder with config and tokenizer")
        folder = QFileDialog.getExistingDirectory(cast(QWidget, self.parent()), title)
        if folder:
            self.take(folder)

    def take(self, folder: str) -> None:
        """Carry the files of a folder."""
        title = self.tr("Reading {folder}").format(folder=safe_text(folder, 60))
        self._session.jobs.start(title, lambda _job: read_sidecars(folder)[0], self._read, self.failed.emit)

    def drop(self) -> None:
        """Carry nothing from it any more."""
        self._session.change_target(base=None)

    def _read(self, base: object) -> None:
        self._session.change_target(base=base)
