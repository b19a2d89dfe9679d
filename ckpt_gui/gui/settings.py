"""What is remembered between runs, in an ini file: recent checkpoints, the colour scheme, the window's shape."""

from __future__ import annotations

import os
from typing import Any

from PySide6.QtCore import QByteArray, QSettings

NUM_RECENTS = 10
LAYOUT_VERSION = 1  # of the docks: raise it when they change, and old states are not applied


class Settings:
    """Typed access to the settings file."""

    def __init__(self) -> None:
        self._store = QSettings(QSettings.Format.IniFormat, QSettings.Scope.UserScope, "ckpt_gui", "ckpt_gui")

    def clear(self) -> None:
        """Forget everything."""
        self._store.clear()

    @property
    def scheme(self) -> str:
        """The colour scheme: `system`, `light` or `dark`."""
        return str(self._store.value("view/scheme", "system"))

    @scheme.setter
    def scheme(self, scheme: str) -> None:
        self._store.setValue("view/scheme", scheme)

    def recents(self) -> list[str]:
        """Return the paths opened last, newest first; read anew each time, as other windows write them too."""
        value: Any = self._store.value("recents", [])
        paths = value if isinstance(value, list) else [value]
        return [p for p in paths if isinstance(p, str) and p][:NUM_RECENTS]

    def add_recent(self, path: str) -> None:
        """Put a path first."""
        absolute = os.path.abspath(path)
        self._store.setValue("recents", [absolute, *(p for p in self.recents() if p != absolute)][:NUM_RECENTS])

    def remove_recent(self, path: str) -> None:
        """Take a path off the list."""
        self._store.setValue("recents", [p for p in self.recents() if p != path])

    def clear_recents(self) -> None:
        """Take all paths off the list."""
        self._store.remove("recents")

    def save_window(self, geometry: QByteArray, state: QByteArray) -> None:
        """Remember where the window is and how its docks lie."""
        self._store.setValue("window/geometry", geometry)
        self._store.setValue(f"window/state{LAYOUT_VERSION}", state)

    def window(self) -> tuple[QByteArray, QByteArray]:
        """Return where the window was and how its docks lay; empty where nothing is remembered."""
        return self._bytes("window/geometry"), self._bytes(f"window/state{LAYOUT_VERSION}")

    def _bytes(self, name: str) -> QByteArray:
        value = self._store.value(name)
        return value if isinstance(value, QByteArray) else QByteArray()
