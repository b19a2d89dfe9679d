"""A decision on the undo stack: it changes what the window shows, and never a file."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtGui import QUndoCommand

from ckpt_gui.gui.decisions import Decisions, decision_words
from ckpt_gui.gui.language import said
from ckpt_gui.gui.wording import capital


class Decision(QUndoCommand):
    """One step of the history.

    Args:
        follow: Shows what follows from decisions; returns False if they are refused at once.
        old: What was decided before.
        new: What is decided now.
    """

    def __init__(self, follow: Callable[[Decisions], bool], old: Decisions, new: Decisions) -> None:
        words = said(decision_words(old, new))
        super().__init__(f"{capital(words)}\n{words}")  # in the history, and after "Undo" in the menu
        self._follow, self.old, self.new = follow, old, new

    def redo(self) -> None:
        """Take the decision; the stack drops it if it is refused at once."""
        self.setObsolete(not self._follow(self.new))

    def undo(self) -> None:
        """Take it back."""
        self._follow(self.old)
