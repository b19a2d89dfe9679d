"""The filter box: a line of text that says when it can not be read, and has the last filters at hand."""

from __future__ import annotations

from PySide6.QtCore import QCoreApplication, Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QLineEdit, QToolButton, QWidget

from ckpt_gui.core.filtering import FIELDS
from ckpt_gui.core.keys import safe_text
from ckpt_gui.gui.panels.parts import set_look
from ckpt_gui.gui.widgets.units import tip_text


class FilterBox(QLineEdit):
    """Where the filter is written. Up goes back to the filters used before, Down forth again.

    Signals:
        used(text): A filter that can be read was left standing.
        wrong(sentence): What is to be told of the text; empty once nothing is.
    """

    used = Signal(str)
    wrong = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._history: list[str] = []
        self._place = -1  # in the history; -1 for what is being written
        self._draft = ""
        self.error = self.told = ""  # what is wrong, and what of it is shown by now
        self.setAccessibleName(self.tr("Filter"))
        self.setClearButtonEnabled(True)
        for clear in self.findChildren(QToolButton):
            clear.setAccessibleName(self.tr("Clear the filter"))
        self.setMinimumWidth(3 * self.fontMetrics().height())
        self.setAcceptDrops(False)  # a file that is dropped is opened, wherever that is
        self.textEdited.connect(self._on_edited)
        self.editingFinished.connect(self._on_finished)
        self.show_error("")

    @property
    def history(self) -> tuple[str, ...]:
        """The filters used last, newest first."""
        return tuple(self._history)

    def remember(self, texts: list[str]) -> None:
        """Take over the filters of earlier runs, newest first."""
        self._history = list(texts)

    def keep(self) -> None:
        """Keep what stands here as a filter that was used."""
        text = self.text().strip()
        if text and not self.error and self._history[:1] != [text]:
            self._history = [text, *(old for old in self._history if old != text)]
            self._place = -1
            self.used.emit(text)

    def show_error(self, sentence: str, *, unfinished: bool = False) -> None:
        """Say what is wrong with the text; empty if nothing is.

        What somebody is still writing is no mistake yet: it is marked once it can not become right, or is left.
        """
        self.error = sentence
        self.setToolTip(tip_text(sentence) if sentence else _help())
        self.setAccessibleDescription(safe_text(sentence) or self.tr("Terms with spaces between them; all must hold"))
        self._mark(bool(sentence) and not (unfinished and self.hasFocus()))

    def _mark(self, wrong: bool) -> None:
        set_look(self, "wrong", wrong)
        self.told = self.error if wrong else ""
        self.wrong.emit(self.told)

    def _on_finished(self) -> None:
        self.keep()
        self._mark(bool(self.error))

    def step(self, places: int) -> bool:
        """Go back (1) or forth (-1) in the history; return False at its ends."""
        place = self._place + places
        if not -1 <= place < len(self._history):
            return False
        if self._place == -1:
            self._draft = self.text()
        self._place = place
        self.setText(self._draft if place == -1 else self._history[place])
        return True

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Go back in the history with Up; Down is the panel's, as it leads on to the tree."""
        if event.key() == Qt.Key.Key_Up:
            self.step(1)
        else:
            super().keyPressEvent(event)

    def _on_edited(self, _text: str) -> None:
        self._place = -1


def _help() -> str:
    """Return the tool tip: an example of each term."""
    lines = "".join(
        f"<tr><td>{tip_text(field.example)}&nbsp;&nbsp;</td><td>{tip_text(field.meaning)}</td></tr>" for field in FIELDS
    )
    rule = QCoreApplication.translate("FilterBox", "All terms must hold; ! before one leaves out, a|b is or.")
    return f"<p>{rule}</p><table>{lines}</table>"
