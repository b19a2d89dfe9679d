"""Imports what pages and dialogs need before anybody asks for them: once a checkpoint is shown and nothing is to do.

Imported by the first turn to a page, it would hold the window for as long as painting several pictures takes. What is
of the core is imported in a thread, what is of Qt a module at a time on the thread of the window (see `core_imports`).
"""

from __future__ import annotations

from PySide6.QtCore import QObject, QTimer

from ckpt_gui.gui.core_imports import core_imports, import_early

CORE = ("stats", "scan", "compare", "report", "engine")
# What one needs of another comes before it, so that no step is long.
PANELS = (
    "overview_page", "tensor_choice", "values_page", "report_dialog", "scan_page", "compare_head", "compare_page",
    "plot_views", "plots_page", "export_run", "export_form", "export_dialog", "palette",
)  # fmt: skip
QUIET_MS = 250  # after a checkpoint is shown: its figures come first
PAUSE_MS = 10  # between two modules: time for what the user does meanwhile


class ImportsAhead(QObject):
    """Imports once, for all windows of the program."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._left = list(PANELS)
        self._timer = QTimer(self, singleShot=True, interval=QUIET_MS)
        self._timer.timeout.connect(self._step)

    @property
    def done(self) -> bool:
        """Whether there is nothing left to import."""
        return not self._left

    def begin(self) -> None:
        """Begin in a moment, unless that was asked for before."""
        if self._left and not self._timer.isActive():
            self._timer.start()

    def _step(self) -> None:
        if not core_imports(CORE).is_alive():  # what would be imported here would wait for it
            import_early(f"ckpt_gui.gui.panels.{self._left.pop(0)}")
        if self._left:
            self._timer.start(PAUSE_MS)
