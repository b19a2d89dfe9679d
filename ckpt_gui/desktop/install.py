"""`ckpt-gui --install-desktop` and `--uninstall-desktop`: menu entry, icon and file types, for this user alone."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from ckpt_gui.desktop import linux, windows
from ckpt_gui.desktop.resources import resource

BUNDLE_ONLY = "macOS takes menu entry and file types from an application bundle: build one with make bundle."


def install(say: Callable[[str], object]) -> bool:
    """Tell the desktop of this system about the program; return False where that can not be done.

    Args:
        say: Takes a sentence on what was done.

    Raises:
        OSError: A file can not be written.
    """
    if sys.platform == "win32":
        count = len(windows.install(program(window=True), str(resource("icons/ckpt-gui.ico"))))
        say(f"{count} entries were written to the registry of this user: right-click a checkpoint, then Open with.")
        return True
    if sys.platform == "darwin":
        say(BUNDLE_ONLY)
        return False
    made = linux.install(linux.data_folder(), program())
    say(f"{len(made)} files were put into {linux.data_folder()}; --uninstall-desktop takes them away again.")
    return True


def uninstall(say: Callable[[str], object]) -> bool:
    """Take away what `install` has put there; return False where there is no such thing.

    Raises:
        OSError: A file can not be removed.
    """
    if sys.platform == "win32":
        windows.uninstall()
        say("The entries in the registry of this user are gone.")
        return True
    if sys.platform == "darwin":
        say(BUNDLE_ONLY)
        return False
    gone = linux.uninstall(linux.data_folder())
    say(f"{len(gone)} files were taken from {linux.data_folder()}.")
    return True


def program(*, window: bool = False) -> str:
    """Return the absolute path of the program to start: of the bundle, of this environment, or on the search path."""
    name = "ckpt-gui-window" if window else "ckpt-gui"
    folder = Path(sys.executable).parent
    for path in (folder / name, folder / f"{name}.exe"):
        if path.is_file():
            return str(path)
    return shutil.which(name) or name
