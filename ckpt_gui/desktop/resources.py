"""Where the files that come with the program are: in the wheel beside the code, in a checkout at the top."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent.parent
APP = "org.ckpt_gui.CkptGui"  # as desktops name it
SAMPLE = "sample/tiny-llama-compiled.pt"
ICON = "icons/ckpt-gui.svg"


def resource(name: str) -> Path:
    """Return the path of a bundled file; it exists in every complete installation."""
    installed = _PACKAGE / "_resources"
    return (installed if installed.is_dir() else _PACKAGE.parent / "resources") / name
