"""A guard for tests of the window: whatever a test starts must have ended when it ends.

A widget, thread, timer or pool task that survives makes a later test crash, and nobody knows why. Here the test that
left it behind fails, with the line that started it. (The idea is napari's and ndv's; the code is not.)
"""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("PySide6", reason="the window needs PySide6")

from PySide6.QtCore import (
    QCoreApplication,
    QEvent,
    QLocale,
    QObject,
    QSettings,
    QThread,
    QThreadPool,
    QTimer,
    QTranslator,
)
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot
from shiboken6 import isValid

from ckpt_gui.gui.theme import STILL
from tests.gui import patience


@pytest.fixture(autouse=True, scope="session")
def _figures_of_the_c_locale() -> None:
    """Write figures as in English, whatever language this machine is set to."""
    QLocale.setDefault(QLocale.c())


@pytest.fixture
def qtbot(qapp: QApplication, request: pytest.FixtureRequest) -> QtBot:
    """Give tests a bot that is patient."""
    return patience.PatientBot(request)


class _Starts:
    """Objects that were started, each with the line that did it."""

    def __init__(self) -> None:
        self.seen: dict[int, tuple[QObject, str]] = {}

    def watch(self, monkeypatch: pytest.MonkeyPatch, owner: type, method: str) -> None:
        original: Callable[..., Any] = getattr(owner, method)

        def started(this: QObject, *args: Any, **kwargs: Any) -> Any:
            self.seen[id(this)] = (this, _caller())
            return original(this, *args, **kwargs)

        monkeypatch.setattr(owner, method, started)

    def alive(self, is_running: Callable[[Any], bool]) -> list[str]:
        return [
            f"{_describe(it)}, started at {line}" for it, line in self.seen.values() if isValid(it) and is_running(it)
        ]


def _caller() -> str:
    for frame in reversed(traceback.extract_stack()):
        if frame.filename != __file__:
            return f"{frame.filename}:{frame.lineno} ({frame.line})"
    return "an unknown line"


def _describe(it: QObject) -> str:
    name = it.objectName()
    title = it.windowTitle() if isinstance(it, QWidget) else ""
    return type(it).__name__ + (f" {name!r}" if name else "") + (f" titled {title!r}" if title else "")


def _wait_until(is_done: Callable[[], bool]) -> bool:
    """Let Qt work until `is_done`, for a while at most."""
    deadline = time.monotonic() + patience.SECONDS
    while not is_done():
        if time.monotonic() > deadline:
            return False
        QCoreApplication.processEvents()
        time.sleep(0.01)
    return True


def _settle() -> None:
    """Run what is queued, deleteLater() included."""
    for _ in range(2):
        QCoreApplication.sendPostedEvents()
        QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)
        QCoreApplication.processEvents()


@pytest.fixture(autouse=True)
def _settings_in_tmp(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> None:
    """Send QSettings to a folder of this test: Qt reads the environment only once per process."""
    folder = tmp_path_factory.mktemp("settings")
    for settings_format in (QSettings.Format.IniFormat, QSettings.Format.NativeFormat):
        QSettings.setPath(settings_format, QSettings.Scope.UserScope, str(folder))


@pytest.fixture(autouse=True)
def _no_leaks(qapp: QApplication, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail if a top-level widget, thread, timer or pool task outlives the test.

    Widgets given to `qtbot.addWidget` are closed before this looks.
    """
    widgets_before = _top_level_widgets()
    python_threads_before = set(threading.enumerate())
    threads, timers, pools = _Starts(), _Starts(), _Starts()
    threads.watch(monkeypatch, QThread, "start")
    timers.watch(monkeypatch, QTimer, "start")
    pools.watch(monkeypatch, QThreadPool, "start")
    yield
    _settle()
    leaks: list[str] = []
    _wait_until(lambda: not pools.alive(lambda pool: pool.activeThreadCount() > 0))
    leaks += pools.alive(lambda pool: pool.activeThreadCount() > 0)
    _wait_until(lambda: not threads.alive(lambda thread: thread.isRunning()))
    leaks += threads.alive(lambda thread: thread.isRunning())
    _wait_until(lambda: not _python_threads(python_threads_before))
    leaks += [f"Python thread {thread.name!r}" for thread in _python_threads(python_threads_before)]
    _settle()
    leaks += timers.alive(lambda timer: timer.isActive())
    leaks += [
        f"top-level widget {_describe(it)}" for key, it in _top_level_widgets().items() if key not in widgets_before
    ]
    _stop_all(threads, timers, widgets_before)
    if leaks:
        pytest.fail("still there after the test:\n" + "\n".join(f"  {leak}" for leak in leaks))


def _top_level_widgets() -> dict[int, QWidget]:
    """By id, which stays unique as long as the caller keeps the values; without the one tool tip that Qt keeps."""
    widgets = QApplication.topLevelWidgets()
    return {id(it): it for it in widgets if isValid(it) and it.metaObject().className() != "QTipLabel"}


def _python_threads(before: set[threading.Thread]) -> list[threading.Thread]:
    """Threads that keep the interpreter from ending, idle workers of an executor that nobody shut down included."""
    return [it for it in threading.enumerate() if it not in before and it.is_alive() and not it.daemon]


def _stop_all(threads: _Starts, timers: _Starts, widgets_before: dict[int, QWidget]) -> None:
    """Do not let one test's leak fail the next."""
    for timer, _ in timers.seen.values():
        if isValid(timer):
            timer.stop()  # type: ignore[attr-defined]
    for thread, _ in threads.seen.values():
        if isValid(thread) and thread.isRunning():  # type: ignore[attr-defined]
            thread.quit()  # type: ignore[attr-defined]
            thread.wait(1000)  # type: ignore[attr-defined]
    for key, widget in _top_level_widgets().items():
        if key not in widgets_before:
            widget.close()
            widget.deleteLater()
    _settle()


@pytest.fixture(autouse=True)
def _app_as_before(qapp: QApplication) -> Iterator[None]:
    """Fail if a test leaves other letters, translations or a wish for no motion to the tests after it."""
    font, translators = qapp.font(), set(qapp.findChildren(QTranslator))
    yield
    left = []
    if qapp.font() != font:
        left.append(f"letters of {qapp.font().pointSizeF():g} pt")
        qapp.setFont(font)
    if qapp.property(STILL):
        left.append("no motion")
        qapp.setProperty(STILL, False)
    for translator in set(qapp.findChildren(QTranslator)) - translators:
        left.append(f"the translation {translator.filePath()}")
        qapp.removeTranslator(translator)
        translator.deleteLater()
    if left:
        pytest.fail("left to other tests: " + ", ".join(left))
