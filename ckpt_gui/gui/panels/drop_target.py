"""Files and folders that are dropped on a window."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, QUrl, Signal
from PySide6.QtGui import QDragEnterEvent, QDropEvent
from PySide6.QtWidgets import QWidget

from ckpt_gui.core.remote.address import is_url


class DropTarget(QObject):
    """Takes what is dropped on a widget, as paths.

    Signals:
        hovered(there): Something that can be dropped is over the widget, or no longer.
        dropped(paths): It was dropped.
        refused(): Something else was dropped: a text.
    """

    hovered = Signal(bool)
    dropped = Signal(list)
    refused = Signal()

    def __init__(self, widget: QWidget) -> None:
        super().__init__(widget)
        widget.setAcceptDrops(True)
        widget.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Take files and folders, and answer everything else."""
        if isinstance(event, QDragEnterEvent):
            event.acceptProposedAction()  # what is no file too: only what is dropped can be answered
            self.hovered.emit(any(map(_place, event.mimeData().urls())))
            return True
        elif event.type() == QEvent.Type.DragLeave:
            self.hovered.emit(False)
        elif event.type() == QEvent.Type.Drop and isinstance(event, QDropEvent):
            self.hovered.emit(False)
            paths = [place for url in event.mimeData().urls() if (place := _place(url))]
            event.acceptProposedAction()
            self.dropped.emit(paths) if paths else self.refused.emit()
            return True
        return super().eventFilter(watched, event)


def _place(url: QUrl) -> str:
    """Return the path of a file, or the address of something on a server; empty for anything else."""
    if url.isLocalFile():
        return url.toLocalFile()
    text = url.toString(QUrl.ComponentFormattingOption.FullyEncoded)
    return text if is_url(text) else ""
