"""What Windows wants to know of the program: file types and the task bar's group, as entries of this user's registry.

The entries are plain values, so that they can be tested on any system; only `install` and `uninstall` touch the
registry. The program is offered under “Open with”: it takes no file type away from another program.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from ckpt_gui.dataclasses import dataclass

APP_ID = "ckpt_gui.CkptGui"  # groups the windows in the task bar, whatever started them
CLASSES = r"Software\Classes"
PROGRAM = "ckpt-gui-window.exe"
# Ending → name of the type, what Explorer calls it.
TYPES = {
    ".safetensors": ("ckpt_gui.safetensors", "Safetensors model weights"),
    ".gguf": ("ckpt_gui.gguf", "GGUF model weights"),
    ".pth": ("ckpt_gui.torch", "PyTorch checkpoint"),
    ".pt": ("ckpt_gui.torch", "PyTorch checkpoint"),
    ".ckpt": ("ckpt_gui.torch", "PyTorch checkpoint"),
}


@dataclass(frozen=True, slots=True)
class Value:
    """A value of the registry, below `HKEY_CURRENT_USER`.

    Attributes:
        key: The key that it is in.
        name: Its name; empty for the key's default value.
        text: What it says.
    """

    key: str
    name: str
    text: str


def entries(program: str, icon: str) -> tuple[Value, ...]:
    """Return what makes Windows offer a program for checkpoints.

    Args:
        program: Its path.
        icon: Path of its .ico.
    """
    command = f'"{program}" "%1"'
    found = [
        Value(rf"{CLASSES}\Applications\{PROGRAM}", "FriendlyAppName", "ckpt_gui"),
        Value(rf"{CLASSES}\Applications\{PROGRAM}\shell\open\command", "", command),
    ]
    for ending, (name, words) in TYPES.items():
        found += [
            Value(rf"{CLASSES}\{name}", "", words),
            Value(rf"{CLASSES}\{name}", "AppUserModelID", APP_ID),
            Value(rf"{CLASSES}\{name}\DefaultIcon", "", icon),
            Value(rf"{CLASSES}\{name}\shell\open\command", "", command),
            Value(rf"{CLASSES}\{ending}\OpenWithProgids", name, ""),
            Value(rf"{CLASSES}\Applications\{PROGRAM}\SupportedTypes", ending, ""),
        ]
    return tuple(dict.fromkeys(found))


def own_keys() -> tuple[str, ...]:
    """Return the keys that are all ours, those below first: they are deleted whole."""
    keys = {value.key for value in entries("", "") if "OpenWithProgids" not in value.key}
    tops = {rf"{CLASSES}\Applications\{PROGRAM}", *(rf"{CLASSES}\{name}" for name, _ in TYPES.values())}
    between = {rf"{top}\{part}" for top in tops for part in ("shell", r"shell\open")}
    return tuple(sorted(keys | tops | between, key=lambda key: (-key.count("\\"), key)))


if sys.platform == "win32":

    def install(program: str, icon: str) -> Sequence[Value]:
        """Write the entries; return them."""
        import winreg

        values = entries(program, icon)
        for value in values:
            with winreg.CreateKey(winreg.HKEY_CURRENT_USER, value.key) as key:
                winreg.SetValueEx(key, value.name, 0, winreg.REG_SZ, value.text)
        return values

    def uninstall() -> None:
        """Remove the entries, as far as they are there."""
        import contextlib
        import winreg

        for value in entries("", ""):
            if value.key.endswith("OpenWithProgids"):
                with (
                    contextlib.suppress(FileNotFoundError),
                    winreg.OpenKey(winreg.HKEY_CURRENT_USER, value.key, 0, winreg.KEY_SET_VALUE) as key,
                ):
                    winreg.DeleteValue(key, value.name)
        for name in own_keys():
            with contextlib.suppress(FileNotFoundError):
                winreg.DeleteKey(winreg.HKEY_CURRENT_USER, name)

    def name_process() -> None:
        """Let the task bar group the windows under the program, not under Python."""
        import ctypes

        ctypes.windll.shell32.SetCurrentProcessExplicitAppUserModelID(APP_ID)
