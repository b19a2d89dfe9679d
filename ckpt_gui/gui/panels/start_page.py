"""What the window shows while nothing is open: where to drop a checkpoint, recent ones, and a sample to try."""

from __future__ import annotations

import os

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QAction, QIcon, QPaintEvent, QPen
from PySide6.QtWidgets import QFrame, QGridLayout, QHBoxLayout, QLabel, QPushButton, QScrollArea, QVBoxLayout, QWidget

from ckpt_gui.core.keys import safe_text
from ckpt_gui.desktop.resources import ICON, resource
from ckpt_gui.gui.language import said
from ckpt_gui.gui.looks import BATCH_STYLES
from ckpt_gui.gui.panels.parts import Card, ElidedLabel, button, clear, label
from ckpt_gui.gui.settings import Settings
from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.widgets.painting import painting
from ckpt_gui.gui.widgets.scroll_body import ScrollBody
from ckpt_gui.gui.widgets.units import GRID, tip_text
from ckpt_gui.gui.wording import human_bytes

WIDTH_EM = 44


class StartPage(QScrollArea):
    """Offers everything that opens a checkpoint.

    Signals:
        open_file(): The user wants to choose a file.
        open_folder(): The user wants to choose a folder.
        open_sample(): The user wants to try the sample.
        explain_error(): The user wants to know what a message means.
        open_path(path): The user chose a recent one.
        open_beside(path): The user wants a recent one in a window of its own.
        session_wanted(): The user wants to open again what was open last time.
    """

    open_file = Signal()
    open_folder = Signal()
    open_sample = Signal()
    explain_error = Signal()
    open_path = Signal(str)
    open_beside = Signal(str)
    session_wanted = Signal()

    def __init__(self, settings: Settings, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._settings, self._theme = settings, theme
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._build()
        self.file_button.clicked.connect(self.open_file)
        self.folder_button.clicked.connect(self.open_folder)
        self.sample_button.clicked.connect(self.open_sample)
        self.explain_button.clicked.connect(self.explain_error)
        self.session_button.clicked.connect(self.session_wanted)
        theme.changed.connect(self.drop_area.update)
        self.refresh()

    def _build(self) -> None:
        page = ScrollBody()
        outer = QHBoxLayout(page)
        outer.setContentsMargins(3 * GRID, 3 * GRID, 3 * GRID, 3 * GRID)
        column = QWidget()
        column.setMaximumWidth(WIDTH_EM * self.fontMetrics().height())
        outer.addStretch(1)
        outer.addWidget(column, 1000)
        outer.addStretch(1)
        layout = QVBoxLayout(column)
        layout.setSpacing(2 * GRID)
        layout.addStretch(2)
        layout.addLayout(self._build_title())
        layout.addSpacing(GRID)
        layout.addWidget(self._build_drop_area())
        layout.addWidget(self._build_session())
        self.recent_card = Card()
        self.recent_card.body.setContentsMargins(GRID, 2 * GRID, 2 * GRID, GRID)
        self.recent_card.body.setSpacing(0)
        layout.addWidget(self.recent_card)
        self.explain_button = button(self.tr("Got an error message? Paste it here…"), kind="quiet", tip="Ctrl+Shift+H")
        layout.addWidget(self.explain_button, 0, Qt.AlignmentFlag.AlignHCenter)
        layout.addWidget(self._build_formats())
        layout.addStretch(4)
        self.setWidget(page)

    def _build_title(self) -> QHBoxLayout:
        side = round(3.2 * self.fontMetrics().height())
        mark = QLabel()
        mark.setPixmap(QIcon(str(resource(ICON))).pixmap(QSize(side, side)))
        words = QVBoxLayout()
        words.setSpacing(GRID // 2)
        words.addWidget(label(self.tr("Inspect and fix a checkpoint"), size=1.9, bold=True))
        text = self.tr(
            "See what a language-model checkpoint is, how it differs from what it should be, and write it fixed."
        )
        about = label(text, muted=True, wrap=True)
        about.setMinimumWidth(20 * self.fontMetrics().height())
        words.addWidget(about)
        line = QHBoxLayout()
        line.setSpacing(2 * GRID)
        line.addWidget(mark, 0, Qt.AlignmentFlag.AlignTop)
        line.addLayout(words, 1)
        return line

    def _build_drop_area(self) -> QWidget:
        self.drop_area = _DropArea(self._theme)
        layout = QVBoxLayout(self.drop_area)
        layout.setContentsMargins(3 * GRID, 4 * GRID, 3 * GRID, 4 * GRID)
        layout.setSpacing(2 * GRID)
        layout.addWidget(
            label(self.tr("Drop a file or a folder here"), size=1.25, bold=True), 0, Qt.AlignmentFlag.AlignCenter
        )
        self.file_button = button(self.tr("Open file…"), kind="primary", tip="Ctrl+O")
        self.folder_button = button(self.tr("Open folder…"), tip="Ctrl+Shift+O")
        self.sample_button = button(self.tr("Try the sample"), tip=self.tr("A tiny Llama, saved from torch.compile"))
        buttons = QHBoxLayout()
        buttons.setSpacing(GRID)
        buttons.addStretch()
        for each in (self.file_button, self.folder_button, self.sample_button):
            buttons.addWidget(each)
        buttons.addStretch()
        layout.addLayout(buttons)
        return self.drop_area

    def _build_session(self) -> QWidget:
        self.session_card = Card(padding=GRID)
        self.session_button = button(
            self.tr("Reopen last session"), tip=self.tr("With its filters, pages and selected tensors")
        )
        self.session_text = ElidedLabel()
        self.session_text.setProperty("tone", "muted")
        line = QHBoxLayout()
        line.setSpacing(2 * GRID)
        line.addWidget(self.session_button)
        line.addWidget(self.session_text, 1)
        self.session_card.body.addLayout(line)
        self.session_card.hide()
        return self.session_card

    def offer_session(self, words: str) -> None:
        """Offer what was open last time, in words; nothing if there are none."""
        self.session_text.set_text(words)
        self.session_button.setAccessibleDescription(words)
        self.session_card.setVisible(bool(words))

    def _build_formats(self) -> QWidget:
        box = QWidget()
        grid = QGridLayout(box)
        grid.setContentsMargins(GRID // 2, 0, GRID // 2, 0)
        grid.setHorizontalSpacing(3 * GRID)
        grid.setVerticalSpacing(GRID // 2)
        columns = (
            (
                self.tr("Reads"),
                self.tr("safetensors, GGUF"),
                self.tr(".pt  .pth  .bin  .ckpt"),
                self.tr("folders of shards"),
            ),
            (self.tr("Writes"), self.tr("Hugging Face"), self.tr("Meta"), self.tr("torchtune, litgpt")),
            (
                self.tr("Never"),
                self.tr("executes what is in a file"),
                self.tr("writes over a source"),
                self.tr("guesses head counts"),
            ),
        )
        for column, (title, *lines) in enumerate(columns):
            grid.setColumnStretch(column, 1)
            grid.addWidget(label(title, bold=True), 0, column)
            for line, text in enumerate(lines, 1):
                grid.addWidget(label(text, muted=True), line, column)
        return box

    def refresh(self) -> None:
        """List the recent checkpoints as they are now."""
        clear(self.recent_card.body)
        recents = self._settings.recents()
        self.recent_card.setVisible(bool(recents))
        if recents:
            title = label(self.tr("Recent"), bold=True)
            title.setContentsMargins(GRID + 2, 0, 0, GRID // 2)
            self.recent_card.body.addWidget(title)
        for path in recents[:6]:
            self.recent_card.body.addWidget(self._recent(path))

    def _recent(self, path: str) -> QWidget:
        there = os.path.exists(path)
        row = QWidget()
        line = QHBoxLayout(row)
        line.setContentsMargins(0, 0, 0, 0)
        name = safe_text(os.path.basename(path) or path, 60).replace("&", "&&")
        opener: QPushButton = button(name, kind="quiet", tip=tip_text(path))
        opener.setAccessibleName(self.tr("Open {}").format(safe_text(path)))
        opener.setEnabled(there)
        opener.clicked.connect(lambda: self.open_path.emit(path))
        beside = QAction(self.tr("Open in a new window"), opener)
        beside.triggered.connect(lambda: self.open_beside.emit(path))
        opener.addAction(beside)
        opener.setContextMenuPolicy(Qt.ContextMenuPolicy.ActionsContextMenu)
        line.addWidget(opener)
        where = ElidedLabel()
        where.setProperty("tone", "muted")
        where.set_text(" · ".join((*self._seen(path), os.path.dirname(path))) if there else self.tr("no longer there"))
        line.addWidget(where, 1)
        if not there:
            remove = button(self.tr("Remove"), kind="quiet")
            remove.setAccessibleName(self.tr("Remove {} from the list").format(safe_text(path)))
            remove.clicked.connect(lambda: self._remove(path))
            line.addWidget(remove)
        return row

    def _seen(self, path: str) -> tuple[str, ...]:
        """Return how large a checkpoint was and what was found, if it is known."""
        nbytes, state = self._settings.recent_notes().get(path, (0, ""))
        return (human_bytes(nbytes), said(BATCH_STYLES[state].word)) if state in BATCH_STYLES else ()

    def _remove(self, path: str) -> None:
        self._settings.remove_recent(path)
        self.refresh()


class _DropArea(QFrame):
    """A surface with a dashed edge."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme
        self._hot = False
        self.setAccessibleName(self.tr("Drop area"))

    def set_hot(self, hot: bool) -> None:
        """Show that something is being dragged over the window."""
        self._hot = hot
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint the surface and its edge."""
        with painting(self, smooth=True) as painter:
            theme = self._theme
            pen = QPen(theme.color("accent" if self._hot else "strong_border"), 1.5, Qt.PenStyle.CustomDashLine)
            pen.setDashPattern([5, 4])
            painter.setPen(pen)
            painter.setBrush(theme.tint("accent", 0.10 if self._hot else 0.03))
            painter.drawRoundedRect(self.rect().adjusted(1, 1, -2, -2), 10, 10)
