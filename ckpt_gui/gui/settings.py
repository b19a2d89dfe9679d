"""What is remembered between runs, in an ini file: recent checkpoints, targets and filters, colours, the window."""

from __future__ import annotations

import os
from typing import Any

from PySide6.QtCore import QByteArray, QSettings

NUM_RECENTS = 10
NUM_TARGETS = 10
NUM_FILTERS = 20
LAYOUT_VERSION = 1  # of the docks: raise it when they change, and old states are not applied


class Settings:
    """Typed access to the settings file.

    Args:
        keeps: False to leave the file as it is: what is set then lasts as long as the program.
    """

    def __init__(self, *, keeps: bool = True) -> None:
        self._store = QSettings(QSettings.Format.IniFormat, QSettings.Scope.UserScope, "ckpt_gui", "ckpt_gui")
        self._keeps = keeps
        self._own: dict[str, Any] = {}  # what is set and not kept
        self._cleared = False

    def clear(self) -> None:
        """Forget everything."""
        self._own.clear()
        self._cleared = not self._keeps
        if self._keeps:
            self._store.clear()

    @property
    def scheme(self) -> str:
        """The colour scheme: `system`, `light` or `dark`."""
        return str(self._value("view/scheme", "system"))

    @scheme.setter
    def scheme(self, scheme: str) -> None:
        self._set("view/scheme", scheme)

    def recents(self) -> list[str]:
        """Return the paths opened last, newest first; read anew each time, as other windows write them too."""
        return self._list("recents")[:NUM_RECENTS]

    def add_recent(self, path: str) -> None:
        """Put a path first."""
        absolute = os.path.abspath(path)
        self._set("recents", [absolute, *(p for p in self.recents() if p != absolute)][:NUM_RECENTS])

    def remove_recent(self, path: str) -> None:
        """Take a path off the list."""
        self._set("recents", [p for p in self.recents() if p != path])

    def clear_recents(self) -> None:
        """Take all paths off the list."""
        self._set("recents", [])

    def filters(self) -> list[str]:
        """Return the filters used last, newest first."""
        return self._list("filters")[:NUM_FILTERS]

    def add_filter(self, text: str) -> None:
        """Put a filter first."""
        self._set("filters", [text, *(f for f in self.filters() if f != text)][:NUM_FILTERS])

    def targets(self) -> list[str]:
        """Return where exports went last, newest first: a killed one has left something beside its folder."""
        return self._list("targets")[:NUM_TARGETS]

    def add_target(self, folder: str) -> None:
        """Put a folder first."""
        absolute = os.path.abspath(folder)
        self._set("targets", [absolute, *(p for p in self.targets() if p != absolute)][:NUM_TARGETS])

    def kept_leftovers(self) -> list[str]:
        """Return the leftovers that the user wants to keep; those that are gone are forgotten."""
        return [path for path in self._list("leftovers/kept") if os.path.lexists(path)]

    def keep_leftovers(self, paths: list[str]) -> None:
        """Ask no more about some leftovers."""
        self._set("leftovers/kept", [*self.kept_leftovers(), *paths])

    def save_window(self, geometry: QByteArray, state: QByteArray) -> None:
        """Remember where the window is and how its docks lie."""
        self._set("window/geometry", geometry)
        self._set(f"window/state{LAYOUT_VERSION}", state)

    def window(self) -> tuple[QByteArray, QByteArray]:
        """Return where the window was and how its docks lay; empty where nothing is remembered."""
        return self._bytes("window/geometry"), self._bytes(f"window/state{LAYOUT_VERSION}")

    def _set(self, name: str, value: Any) -> None:
        if self._keeps:
            self._store.setValue(name, value)
        else:
            self._own[name] = value

    def _value(self, name: str, default: Any = None) -> Any:
        if name in self._own or self._cleared:
            return self._own.get(name, default)
        return self._store.value(name, default)

    def _list(self, name: str) -> list[str]:
        value = self._value(name, [])
        return [text for text in (value if isinstance(value, list) else [value]) if isinstance(text, str) and text]

    def _bytes(self, name: str) -> QByteArray:
        value = self._value(name)
        return value if isinstance(value, QByteArray) else QByteArray()
