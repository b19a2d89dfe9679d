"""Many checkpoints in one window: a verdict on each, and one button that writes all that are certain."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import QSize, Qt, QTimer, Signal
from PySide6.QtGui import QCloseEvent, QKeySequence, QShortcut
from PySide6.QtWidgets import QFileDialog, QHBoxLayout, QMainWindow, QVBoxLayout, QWidget

from ckpt_gui.core.text import plural
from ckpt_gui.gui.batch_queue import BatchQueue
from ckpt_gui.gui.jobs import JobManager
from ckpt_gui.gui.panels.batch_rows import summary
from ckpt_gui.gui.panels.batch_table import BatchTable
from ckpt_gui.gui.panels.batch_target import BatchTargetCard
from ckpt_gui.gui.panels.close_question import ask_to_close, job_lines
from ckpt_gui.gui.panels.drop_target import DropTarget
from ckpt_gui.gui.panels.parts import button, label
from ckpt_gui.gui.settings import Settings
from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.widgets.units import GRID

SIZE = QSize(1100, 640)
PAUSE = 50  # milliseconds: many rows that change at once are shown once
FILES = "Checkpoints (*.safetensors *.gguf *.pt *.pth *.bin *.ckpt *.json);;All files (*)"


class BatchWindow(QMainWindow):
    """A queue of checkpoints.

    Signals:
        open_wanted(path): A checkpoint shall be opened in a window of its own.
        settled(): Nothing is being looked at or written any more.
    """

    open_wanted = Signal(str)
    settled = Signal()

    def __init__(self, settings: Settings, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("batch")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.settings, self.theme = settings, theme
        self.jobs = JobManager(self)
        self.jobs.use_all_cores(settings.all_cores)
        self.queue = BatchQueue(self.jobs, self)
        if settings.layout:
            self.queue.set_target(layout=settings.layout)
        self.ask_to_close: Callable[[QWidget, Sequence[str]], bool] = ask_to_close
        self.drops = DropTarget(self)
        self._busy = False
        self._soon = QTimer(self, singleShot=True, interval=PAUSE)
        self._build(theme)
        self._connect()
        self.resize(SIZE)
        self._show()

    # ------------------------------------------------------------------------------------------------------ building

    def _build(self, theme: Theme) -> None:
        tr = self.tr
        self.title = label(size=1.4, bold=True)
        self.summary = label(muted=True, wrap=True)
        self.target = BatchTargetCard()
        self.table = BatchTable(theme)
        self.details = label(muted=True, wrap=True)
        self.details.setMinimumHeight(2 * self.details.fontMetrics().lineSpacing())  # so that nothing jumps
        self.details.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.details.setAccessibleName(tr("About the selected checkpoint"))
        self.add_button = button(tr("Add files…"), tip=tr("Add checkpoints; folders can be dropped here (Ctrl+O)"))
        self.remove_button = button(tr("Remove"), tip=tr("Take the selected rows off the list; files stay (Del)"))
        self.open_button = button(tr("Open"), tip=tr("Open the selected checkpoint in a window of its own (Enter)"))
        self.stop_button = button(tr("Stop"), tip=tr("Stop what runs, and what waits; nothing half-written stays"))
        self.fix_button = button("", kind="primary")
        self.fix_button.setShortcut(QKeySequence("Ctrl+E"))
        centre = QWidget()
        column = QVBoxLayout(centre)
        column.setContentsMargins(2 * GRID, 2 * GRID, 2 * GRID, 2 * GRID)
        column.setSpacing(GRID)
        for widget in (self.title, self.summary, self.target):
            column.addWidget(widget)
        column.addWidget(self.table, 1)
        column.addWidget(self.details)
        foot = QHBoxLayout()
        foot.setSpacing(GRID)
        for each in (self.add_button, self.remove_button, self.open_button):
            foot.addWidget(each)
        foot.addStretch(1)
        foot.addWidget(self.stop_button)
        foot.addWidget(self.fix_button)
        column.addLayout(foot)
        self.setCentralWidget(centre)

    def _connect(self) -> None:
        self._soon.timeout.connect(self._show)
        self.queue.changed.connect(self._show)
        self.queue.row_changed.connect(self._on_row)
        self.queue.writing.connect(self.settings.add_target)
        self.target.target_wanted.connect(lambda changes: self.queue.set_target(**changes))
        self.target.parent_wanted.connect(self.queue.set_parent)
        self.target.plan_wanted.connect(self.queue.take_plan)
        self.queue.plan_refused.connect(self.summary.setText)
        self.table.open_wanted.connect(self.open_wanted)
        self.table.remove_wanted.connect(self._remove)
        self.table.chosen.connect(self._enable)
        self.drops.dropped.connect(self.queue.add)
        self.add_button.clicked.connect(self._add)
        self.remove_button.clicked.connect(self._remove)
        self.open_button.clicked.connect(self._open)
        self.stop_button.clicked.connect(lambda: self.queue.stop())
        self.fix_button.clicked.connect(self.fix_all)
        for keys, act in ((QKeySequence.StandardKey.Open, self._add), (QKeySequence.StandardKey.Close, self.close)):
            QShortcut(QKeySequence(keys), self).activated.connect(act)

    # ------------------------------------------------------------------------------------------------------- showing

    def _on_row(self, place: int) -> None:
        self.table.rows_model.show_row(place, self.queue.rows[place])
        self._soon.start()

    def _show(self) -> None:
        """Show the rows, what they add up to, and what can be done."""
        rows, tr = self.queue.rows, self.tr
        self.table.rows_model.show_rows(rows)
        count = plural(len(rows), "checkpoint")
        self.title.setText(count)
        self.setWindowTitle(tr("Batch of {count}").format(count=count) + " – ckpt_gui")
        self.summary.setText(summary(rows) or tr("Add files, or drop files and folders here."))
        queue = self.queue
        self.target.show_target(queue.target, queue.parent_folder, queue.plan_path, enabled=not self._writes())
        self._enable()
        was, self._busy = self._busy, self.queue.busy
        if was and not self._busy:
            self.settled.emit()

    def _writes(self) -> bool:
        return any(row.state in ("writing", "queued") for row in self.queue.rows)

    def _enable(self) -> None:
        number, tr = len(self.queue.fixable), self.tr
        self.fix_button.setEnabled(number > 0)
        words = tr("Fix {n} that are certain").format(n=f"{number:,}") if number else tr("Fix all that are certain")
        self.fix_button.setText(tr("Fix the one that is certain") if number == 1 else words)
        self.fix_button.setAccessibleName(self.fix_button.text())
        tip = tr("Write each into the new folder that its row names, and verify it (Ctrl+E)")
        self.fix_button.setToolTip(tip if number else tr("No checkpoint here can be fixed without a question"))
        self.stop_button.setEnabled(self.queue.busy)
        chosen, row = bool(self.table.selected()), self.table.current_row()
        self.details.setText(row.details() if row is not None else "")
        self.remove_button.setEnabled(chosen)
        self.open_button.setEnabled(chosen)

    # -------------------------------------------------------------------------------------------------------- acting

    def fix_all(self) -> None:
        """Write all that are certain."""
        self.queue.fix([row.path for row in self.queue.fixable])

    def _add(self) -> None:
        paths, _ = QFileDialog.getOpenFileNames(self, self.tr("Add checkpoints"), "", FILES)
        if paths:
            self.queue.add(paths)

    def _remove(self) -> None:
        self.queue.remove(self.table.selected())

    def _open(self) -> None:
        for path in self.table.selected()[:1]:
            row = next(row for row in self.queue.rows if row.path == path)
            self.open_wanted.emit(row.folder if row.state == "written" else path)

    def closeEvent(self, event: QCloseEvent) -> None:
        """Ask if something is being written; then stop it, and leave no thread behind."""
        lines = job_lines(self.jobs.running())
        if lines and self.settings.asks_to_close and not self.ask_to_close(self, lines):
            event.ignore()
            return
        self._soon.stop()
        self.jobs.shutdown()
        event.accept()
