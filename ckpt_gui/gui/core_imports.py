"""Imports what the window needs of the core in a thread, so that the window is painted and moves meanwhile.

Nothing of Qt is imported there: PySide6 makes its classes as they are first named, and no two threads may do that at
once.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from functools import cache
from importlib import import_module

# To open a checkpoint, and to show what it is.
MODULES = ("api", "tree", "against", "batch", "candidates", "journal", "leftovers", "overview", "plan_file", "values")


@cache
def core_imports(names: tuple[str, ...] = MODULES) -> threading.Thread:
    """Return the thread that imports modules of the core; it is started by the first call that asks for them."""
    thread = threading.Thread(target=_import, args=(names,), name="imports")
    thread.start()
    return thread


def _import(names: tuple[str, ...]) -> None:
    for name in names:
        import_early(f"ckpt_gui.core.{name}")


def import_early(name: str) -> None:
    """Import a module that nobody has asked for yet."""
    with suppress(ImportError):  # told where it is needed: it fails there again
        import_module(name)
