"""What acts on a window for it: a child of the window that has no attribute of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from PySide6.QtCore import QObject

if TYPE_CHECKING:
    from ckpt_gui.gui.main_window import MainWindow


class WindowHelper(QObject):
    """Acts on one window.

    Args:
        window: The window; what it is made for.
    """

    def __init__(self, window: MainWindow) -> None:
        super().__init__(window)

    @property
    def _window(self) -> MainWindow:
        """The window; not an attribute, so that Python frees a closed window at once, and what it holds with it."""
        return cast("MainWindow", self.parent())
