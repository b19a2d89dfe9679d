"""Files and folders that are dropped on a window."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, Signal
from PySide6.QtGui import QDragEnterEvent, QDropEvent
from PySide6.QtWidgets import QWidget


class DropTarget(QObject):
    """Takes what is dropped on a widget, as paths.

    Signals:
        hovered(there): Something that can be dropped is over the widget, or no longer.
        dropped(paths): It was dropped.
    """

    hovered = Signal(bool)
    dropped = Signal(list)

    def __init__(self, widget: QWidget) -> None:
        super().__init__(widget)
        widget.setAcceptDrops(True)
        widget.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Welcome files and folders, and nothing else."""
        if isinstance(event, QDragEnterEvent):
            if any(url.isLocalFile() for url in event.mimeData().urls()):
                event.acceptProposedAction()
                self.hovered.emit(True)
                return True
        elif event.type() == QEvent.Type.DragLeave:
            self.hovered.emit(False)
        elif event.type() == QEvent.Type.Drop and isinstance(event, QDropEvent):
            self.hovered.emit(False)
            paths = [url.toLocalFile() for url in event.mimeData().urls() if url.isLocalFile()]
            if paths:
                event.acceptProposedAction()
                self.dropped.emit(paths)
                return True
        return super().eventFilter(watched, event)
