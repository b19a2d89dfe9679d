"""How long tests of the window wait: long enough for a machine that is busy with other things.

A test fails because something does not come, not because it comes late; so no test states a limit of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pytestqt.qtbot import QtBot

SECONDS = 60.0


class PatientBot(QtBot):
    """Waits as long as a busy machine may take."""

    def waitUntil(self, callback: Callable[[], bool | None]) -> None:
        super().waitUntil(callback, timeout=int(SECONDS * 1000))

    def waitSignal(self, signal: object, **options: Any) -> Any:
        return super().waitSignal(signal, timeout=int(SECONDS * 1000), **options)

    def waitSignals(self, signals: object, **options: Any) -> Any:
        return super().waitSignals(signals, timeout=int(SECONDS * 1000), **options)
