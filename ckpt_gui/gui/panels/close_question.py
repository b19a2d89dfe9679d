"""The questions before something would be lost: work that is running, and a plan that nobody has saved."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QMessageBox, QWidget

from ckpt_gui.gui.jobs import Job
from ckpt_gui.gui.language import said

PlanAnswer = Literal["save", "leave", "stay"]


def job_lines(jobs: Iterable[Job]) -> list[str]:
    """Return a line for each job that somebody would miss: what it does, and how far it is."""
    return [_line(job) for job in jobs if not job.quiet]


def _line(job: Job) -> str:
    if not job.begun:
        return said("{title}, waits").format(title=job.title)
    if job.percent is None:
        return job.title
    return said("{title}, {percent} %").format(title=job.title, percent=job.percent)


def ask_to_close(parent: QWidget, lines: Sequence[str]) -> bool:
    """Name the jobs that are running; return True if they shall be stopped."""
    box = _box(parent, said("Close ckpt_gui?"), said("This is still running:"), "\n".join(lines))
    leave = box.addButton(said("Stop it and close"), QMessageBox.ButtonRole.DestructiveRole)
    box.setDefaultButton(box.addButton(said("Keep it running"), QMessageBox.ButtonRole.RejectRole))
    box.exec()
    return box.clickedButton() is leave


def ask_about_plan(parent: QWidget, name: str) -> PlanAnswer:
    """Name the checkpoint whose edited plan is neither saved nor exported; return what shall become of it."""
    title, text = said("Keep the plan?"), said("The fix plan of {name} was edited.").format(name=name)
    box = _box(parent, title, text, said("It was neither saved nor exported. Without that it is lost."))
    save = box.addButton(said("Save plan…"), QMessageBox.ButtonRole.AcceptRole)
    leave = box.addButton(said("Let it go"), QMessageBox.ButtonRole.DestructiveRole)
    box.setDefaultButton(box.addButton(said("Stay here"), QMessageBox.ButtonRole.RejectRole))
    box.exec()
    pressed = box.clickedButton()
    return "save" if pressed is save else "leave" if pressed is leave else "stay"


def _box(parent: QWidget, title: str, text: str, detail: str) -> QMessageBox:
    box = QMessageBox(QMessageBox.Icon.Question, title, text, parent=parent)
    box.setTextFormat(Qt.TextFormat.PlainText)
    box.setInformativeText(detail)
    return box
