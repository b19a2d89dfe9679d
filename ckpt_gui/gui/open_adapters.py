"""The adapters that the decisions of a session may want: open as long as its checkpoint is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QCoreApplication

from ckpt_gui.core.api import open_adapter
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.source import Source
from ckpt_gui.gui.decisions import AdapterChoice
from ckpt_gui.gui.jobs import Job, JobManager


class OpenAdapters:
    """Opens adapters in jobs, and closes them all together: an undone decision may be taken again."""

    def __init__(self, jobs: JobManager) -> None:
        self._jobs = jobs
        self._job: Job | None = None
        self._open: list[Source] = []

    def open(self, path: str, done: Callable[[AdapterChoice], None], failed: Callable[[BaseException], None]) -> None:
        """Open an adapter; a later one takes the place of one that is still being opened."""

        def opened(source: Source) -> None:
            self._open.append(source)
            done(AdapterChoice(path, source))

        title = QCoreApplication.translate("session", "Opening {}").format(safe_text(Path(path).name, 60))
        self._jobs.cancel(self._job, silently=True)
        self._job = self._jobs.start(title, lambda _job: open_adapter(path), opened, failed, discard=Source.close)

    def close(self) -> None:
        """Close them all, and the one that is still being opened."""
        self._jobs.cancel(self._job, silently=True)
        self._job = None
        for source in self._open:
            self._jobs.once_unused(source, source.close)  # an export may still read from it
        self._open.clear()
