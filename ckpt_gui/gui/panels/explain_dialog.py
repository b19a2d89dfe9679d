"""The box that explains a message of another program: what is the matter, and what to click or to run."""

from __future__ import annotations

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QPlainTextEdit, QSplitter, QVBoxLayout, QWidget

from ckpt_gui.core.errors import Cancelled
from ckpt_gui.core.explain import Opened
from ckpt_gui.gui.jobs import Job
from ckpt_gui.gui.language import said
from ckpt_gui.gui.models.explaining import EMPTY, Answer, answer, open_text
from ckpt_gui.gui.panels.explain_card import ExplainCard
from ckpt_gui.gui.panels.parts import button, clear, label
from ckpt_gui.gui.session import Session
from ckpt_gui.gui.snapshot import Snapshot
from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.widgets.scroll_body import ScrollBody, scroll_area
from ckpt_gui.gui.widgets.trouble_line import TroubleLine
from ckpt_gui.gui.widgets.units import GRID, em, quoted, tip_text

PAUSE = 200  # milliseconds without a key before the text is looked up


class ExplainDialog(QDialog):
    """Explains what is pasted, while the window can be used beside it.

    Attributes:
        edit: Where the message is pasted.
        told: One line about all of it.
        cards: The explanations, the likeliest first.

    Signals:
        deed_wanted(deed): A button of an explanation was pressed.
        path_wanted(path): A file that the message names is to be opened.
        answered(answer): The cards are those of the text.
    """

    deed_wanted = Signal(object)
    path_wanted = Signal(str)
    answered = Signal(object)

    def __init__(self, session: Session, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session, self._theme = session, theme
        self._job: Job | None = None
        self.cards: list[ExplainCard] = []
        self.setWindowTitle(self.tr("Explain an error"))
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self._build()
        self._pause = QTimer(self, singleShot=True, interval=PAUSE)
        self._pause.timeout.connect(self._look_up)
        self.edit.textChanged.connect(self._pause.start)
        self.paste_button.clicked.connect(self._paste)
        session.changed.connect(self._look_up)
        session.closed.connect(self._look_up)
        theme.changed.connect(self._look_up)  # the font of the commands

    def _build(self) -> None:
        self.edit = QPlainTextEdit()
        self.edit.setFont(self._theme.fixed_font())
        self.edit.setTabChangesFocus(True)
        self.edit.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self.edit.setPlaceholderText(self.tr("Traceback, or what a loader or converter said"))
        self.edit.setAccessibleName(self.tr("Message to explain"))
        self.edit.setMinimumHeight(em(self, 4))
        self.told = label(said(EMPTY), muted=True, wrap=True)
        self.trouble = TroubleLine(self._session.jobs)
        body = ScrollBody()
        self._column = QVBoxLayout(body)
        self._column.setContentsMargins(0, 0, GRID, 0)
        self._column.setSpacing(int(1.5 * GRID))
        self.area = scroll_area(body)
        self.area.setAccessibleName(self.tr("Explanations"))
        self.paste_button = button(self.tr("Paste"), tip=self.tr("Put what was copied here in place of the text"))
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        buttons.addButton(self.paste_button, QDialogButtonBox.ButtonRole.ActionRole)
        buttons.rejected.connect(self.close)
        below = QWidget()
        lower = QVBoxLayout(below)
        lower.setContentsMargins(0, GRID // 2, 0, 0)
        lower.setSpacing(GRID)
        for widget in (self.told, self.trouble):
            lower.addWidget(widget)
        lower.addWidget(self.area, 1)
        split = QSplitter(Qt.Orientation.Vertical)
        split.setChildrenCollapsible(False)
        split.addWidget(self.edit)
        split.addWidget(below)
        split.setStretchFactor(1, 3)
        split.setSizes([em(self, 8), em(self, 22)])
        layout = QVBoxLayout(self)
        layout.setContentsMargins(2 * GRID, 2 * GRID, 2 * GRID, 2 * GRID)
        layout.setSpacing(GRID)
        layout.addWidget(label(self.tr("Paste the message of any program that loads, saves or converts"), wrap=True))
        layout.addWidget(split, 1)
        layout.addWidget(buttons)
        room = self.screen().availableSize() * 0.9
        self.resize(min(em(self, 42), room.width()), min(em(self, 38), room.height()))

    def _paste(self) -> None:
        self.edit.setPlainText(QGuiApplication.clipboard().text())
        self.edit.setFocus(Qt.FocusReason.OtherFocusReason)

    def _look_up(self) -> None:
        """Explain the text in a job: a paste can be long, and the disk that it names slow."""
        self._pause.stop()
        jobs, text, snapshot, path = self._session.jobs, self.edit.toPlainText(), self._session.snapshot, self._path()
        jobs.cancel(self._job, silently=True)
        self._job = jobs.start(
            self.tr("Explaining a message"), lambda _: answer(text, _opened(snapshot, path)), self._show, self._fail,
            quiet=True,
        )  # fmt: skip

    def _path(self) -> str:
        return (self._session.path or "") if self._session.snapshot is not None else ""

    def _show(self, found: Answer) -> None:
        self._job = None
        self.trouble.say("")
        self.told.setText(quoted(said(found.told)))
        clear(self._column)
        self.cards = [ExplainCard(each, found.path, self._theme) for each in found.explanations]
        for path in found.files:
            opener = button(open_text(path).replace("&", "&&"), tip=tip_text(path))
            opener.clicked.connect(lambda _=False, path=path: self.path_wanted.emit(path))
            self._column.addWidget(opener, 0, Qt.AlignmentFlag.AlignLeft)
        for card in self.cards:
            card.deed_wanted.connect(self.deed_wanted)
            self._column.addWidget(card)
        self._column.addStretch(1)
        self.answered.emit(found)

    def _fail(self, error: BaseException) -> None:
        self._job = None
        if not isinstance(error, Cancelled):
            self.trouble.say_error(error)

    def done(self, result: int) -> None:
        """Stop looking up, and close."""
        self._pause.stop()
        self._session.jobs.cancel(self._job, silently=True)
        super().done(result)


def _opened(snapshot: Snapshot | None, path: str) -> Opened | None:
    """Return what is known of the open checkpoint."""
    if snapshot is None:
        return None
    keys = frozenset(ref.key for ref in snapshot.source.refs)
    return Opened(path or snapshot.source.path, keys, snapshot.card.findings)
