"""What the windows showed, as values and as JSON: kept when the program ends, and offered at the next start."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.text import plural
from ckpt_gui.dataclasses import asdict, dataclass, fields

VERSION = 1


@dataclass(frozen=True, slots=True)
class WindowState:
    """What one window shows.

    Attributes:
        path: The checkpoint; absolute.
        page: Name of the page.
        mode: How the keys are shown without a filter, if the user has chosen that: `tree`, `flat` or `families`.
        filter: What stands in the filter box.
        select: Key of the selected tensor.
        against: What it is compared with.
        config: The config file that it was opened with.
        plan: The edited fix plan, as its file would be; empty where nobody edited it.
    """

    path: str
    page: str = ""
    mode: str = ""
    filter: str = ""
    select: str = ""
    against: str = ""
    config: str = ""
    plan: str = ""


def write_states(states: Sequence[WindowState]) -> str:
    """Return states as JSON; empty for none."""
    return json.dumps({"version": VERSION, "windows": [asdict(state) for state in states]}) if states else ""


def read_states(text: str) -> tuple[WindowState, ...]:
    """Return the states that JSON holds; nothing where it is not ours, or of another version."""
    try:
        found: Any = json.loads(text) if text else {}
    except ValueError:
        return ()
    if not isinstance(found, dict) or found.get("version") != VERSION:
        return ()
    names = [field.name for field in fields(WindowState)]
    states = []
    for each in found.get("windows", ()):
        values = {name: each[name] for name in names if isinstance(each, dict) and isinstance(each.get(name), str)}
        if values.get("path"):
            states.append(WindowState(**values))
    return tuple(states)


def session_words(states: Sequence[WindowState]) -> str:
    """Return how many checkpoints a session had, and their names.

    >>> session_words([WindowState("/m/a.pt"), WindowState("/m/b.pt")])
    '2 checkpoints: a.pt, b.pt'
    """
    names = ", ".join(safe_text(os.path.basename(os.path.normpath(state.path)), 40) for state in states[:4])
    return f"{plural(len(states), 'checkpoint')}: {names}" + (", …" if states[4:] else "")
