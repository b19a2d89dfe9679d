"""What is remembered between runs, in an ini file: what was used last, what was chosen, the window."""

from __future__ import annotations

import os
from typing import Any

from PySide6.QtCore import QByteArray, QSettings

from ckpt_gui.core.remote.address import is_url

NUM_RECENTS = 10
NUM_TARGETS = 10
NUM_FILTERS = 20
NUM_COMMANDS = 10
MOST_RECENTS = 50  # and filters, that can be chosen to be kept
LAYOUT_VERSION = 3  # of the docks: raise it when they change, and old states are not applied


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
        """The colour scheme: `system`, `light`, `dark` or `contrast`."""
        return str(self._value("view/scheme", "system"))

    @scheme.setter
    def scheme(self, scheme: str) -> None:
        self._set("view/scheme", scheme)

    @property
    def points(self) -> int:
        """The size of the letters; 0 for that of the system."""
        return self._number("view/points", 0)

    @points.setter
    def points(self, points: int) -> None:
        self._set("view/points", points)

    @property
    def still(self) -> bool:
        """True if nothing may move by itself."""
        return self._flag("view/still", False)

    @still.setter
    def still(self, still: bool) -> None:
        self._set("view/still", still)

    @property
    def layout(self) -> str:
        """The layout that an export goes to unless something else is chosen; empty for the one that fits the model."""
        return str(self._value("export/layout", ""))

    @layout.setter
    def layout(self, layout: str) -> None:
        self._set("export/layout", layout)

    @property
    def all_cores(self) -> bool:
        """True if long work may use every core of the machine."""
        return self._flag("work/cores", False)

    @all_cores.setter
    def all_cores(self, wanted: bool) -> None:
        self._set("work/cores", wanted)

    @property
    def offers_session(self) -> bool:
        """True if what was open last time is offered again."""
        return self._flag("session/offer", True)

    @offers_session.setter
    def offers_session(self, offers: bool) -> None:
        self._set("session/offer", offers)

    @property
    def reuses_window(self) -> bool:
        """Whether a checkpoint opened from elsewhere takes the place of one whose plan was not edited."""
        return self._flag("open/reuse", False)

    @reuses_window.setter
    def reuses_window(self, reuses: bool) -> None:
        self._set("open/reuse", reuses)

    @property
    def asks_to_close(self) -> bool:
        """True if closing asks while work is running that an end would throw away."""
        return self._flag("session/ask", True)

    @asks_to_close.setter
    def asks_to_close(self, asks: bool) -> None:
        self._set("session/ask", asks)

    @property
    def num_recents(self) -> int:
        """How many checkpoints are remembered; 0 for none."""
        return min(self._number("keep/recents", NUM_RECENTS), MOST_RECENTS)

    @num_recents.setter
    def num_recents(self, number: int) -> None:
        self._set("keep/recents", number)
        self._set("recents", self._list("recents")[:number])

    @property
    def num_filters(self) -> int:
        """How many filters are remembered; 0 for none."""
        return min(self._number("keep/filters", NUM_FILTERS), MOST_RECENTS)

    @num_filters.setter
    def num_filters(self, number: int) -> None:
        self._set("keep/filters", number)
        self._set("filters", self._list("filters")[:number])

    @property
    def file(self) -> str:
        """Where all of this is kept."""
        return self._store.fileName()

    def commands(self) -> list[str]:
        """Return the names of the commands that the palette was asked for last, newest first."""
        return self._list("commands")[:NUM_COMMANDS]

    def add_command(self, name: str) -> None:
        """Put a command first."""
        self._set("commands", [name, *(c for c in self.commands() if c != name)][:NUM_COMMANDS])

    def shortcuts(self) -> dict[str, list[str]]:
        """Return the shortcuts that the user has changed: name of the action → keys; an empty list for none."""
        found = (text.partition("=") for text in self._list("shortcuts"))
        return {name: keys.split("\t") if keys else [] for name, _, keys in found}

    def set_shortcuts(self, changed: dict[str, list[str]]) -> None:
        """Remember the shortcuts that differ from those delivered."""
        self._set("shortcuts", [f"{name}={chr(9).join(keys)}" for name, keys in sorted(changed.items())])

    def session(self) -> str:
        """Return what was open last time, as JSON; empty if nothing was."""
        return str(self._value("session/windows", ""))

    def save_session(self, text: str) -> None:
        """Remember what is open, as JSON."""
        self._set("session/windows", text)

    def recents(self) -> list[str]:
        """Return the paths opened last, newest first; read anew each time, as other windows write them too."""
        return self._list("recents")[: self.num_recents]

    def recent_notes(self) -> dict[str, tuple[int, str]]:
        """Return what was seen of paths when they were opened last: path → bytes, state of a `Verdict`."""
        found = (text.rsplit("\t", 2) for text in self._list("recent-notes"))
        return {note[0]: (int(note[1]), note[2]) for note in found if len(note) == 3 and note[1].isdecimal()}

    def note_recent(self, path: str, nbytes: int, state: str) -> None:
        """Remember how large a recent checkpoint is and what was found, as long as it is among the recent ones."""
        absolute = path if is_url(path) else os.path.abspath(path)
        notes = self.recent_notes() | {absolute: (nbytes, state)}
        kept = [p for p in self.recents() if p in notes]
        self._set("recent-notes", [f"{p}\t{notes[p][0]}\t{notes[p][1]}" for p in kept])

    def add_recent(self, path: str) -> None:
        """Put a path first."""
        absolute = path if is_url(path) else os.path.abspath(path)
        self._set("recents", [absolute, *(p for p in self.recents() if p != absolute)][: self.num_recents])

    def remove_recent(self, path: str) -> None:
        """Take a path off the list."""
        self._set("recents", [p for p in self.recents() if p != path])

    def clear_recents(self) -> None:
        """Take all paths off the list."""
        self._set("recents", [])
        self._set("recent-notes", [])

    def filters(self) -> list[str]:
        """Return the filters used last, newest first."""
        return self._list("filters")[: self.num_filters]

    def add_filter(self, text: str) -> None:
        """Put a filter first."""
        self._set("filters", [text, *(f for f in self.filters() if f != text)][: self.num_filters])

    @property
    def columns(self) -> list[str]:
        """The columns of the key tree, one word each in their order; empty for the usual ones."""
        return self._list("view/columns")

    def keep_columns(self, words: list[str]) -> None:
        """Remember the columns of the key tree."""
        self._set("view/columns", words)

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

    def _number(self, name: str, default: int) -> int:
        value = str(self._value(name, default))
        return int(value) if value.isdecimal() else default

    def _flag(self, name: str, default: bool) -> bool:
        return str(self._value(name, default)).lower() == "true"

    def _bytes(self, name: str) -> QByteArray:
        value = self._value(name)
        return value if isinstance(value, QByteArray) else QByteArray()
