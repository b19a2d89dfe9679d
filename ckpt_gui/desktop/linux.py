"""The files that a Linux desktop wants: where each goes below `~/.local/share`, and what takes note of them."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from ckpt_gui.desktop.resources import APP, resource

PNG_SIZES = (16, 22, 24, 32, 48, 64, 128, 256, 512)
DESKTOP = f"applications/{APP}.desktop"
# Bundled file → its place below the folder of shared data.
FILES: Mapping[str, str] = {
    f"{APP}.desktop": DESKTOP,
    f"{APP}.metainfo.xml": f"metainfo/{APP}.metainfo.xml",
    f"{APP}.mime.xml": f"mime/packages/{APP}.xml",
    "icons/ckpt-gui.svg": f"icons/hicolor/scalable/apps/{APP}.svg",
    **{f"icons/png/{size}.png": f"icons/hicolor/{size}x{size}/apps/{APP}.png" for size in PNG_SIZES},
}
# Program and folder: what keeps an index of these files. Where one is absent, the desktop looks on its own.
TOOLS: Sequence[tuple[Sequence[str], str]] = (
    (("update-mime-database",), "mime"),
    (("update-desktop-database", "-q"), "applications"),
    (("gtk-update-icon-cache", "-q", "-t", "-f"), "icons/hicolor"),
)


def data_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Return where this user's shared data lies, as the XDG base directory specification has it."""
    given = environment.get("XDG_DATA_HOME", "")
    return Path(given) if os.path.isabs(given) else Path(os.path.expanduser("~")) / ".local" / "share"


def install(data: Path, program: str) -> list[Path]:
    """Put the files into a folder of shared data; return them.

    Args:
        data: The folder.
        program: What the menu entry starts: absolute, as the desktop's own search path may lack it.

    Raises:
        OSError: One can not be written.
    """
    made = []
    for name, place in FILES.items():
        target = data / place
        target.parent.mkdir(parents=True, exist_ok=True)
        content = resource(name).read_bytes()
        target.write_bytes(started_by(content.decode(), program).encode() if place == DESKTOP else content)
        made.append(target)
    _take_note(data)
    return made


def uninstall(data: Path) -> list[Path]:
    """Take the files away again; return those that were there.

    Raises:
        OSError: One can not be removed.
    """
    gone = [path for path in (data / place for place in FILES.values()) if path.exists()]
    for path in gone:
        path.unlink()
    if gone:
        _take_note(data)
    return gone


def started_by(entry: str, program: str) -> str:
    """Return a desktop entry that starts a program: quoted as the desktop entry specification wants it.

    >>> started_by("Exec=ckpt-gui %F", "/opt/my tools/ckpt-gui")
    'Exec="/opt/my tools/ckpt-gui" %F'
    """
    quoted = "".join("\\" + mark if mark in '"`$\\' else mark for mark in program)
    escaped = quoted.replace("\\", "\\\\").replace("%", "%%")  # once more: it is a value of type string, too
    return entry.replace("Exec=ckpt-gui ", f'Exec="{escaped}" ')


def _take_note(data: Path) -> None:
    for words, place in TOOLS:
        tool = shutil.which(words[0])
        if tool is not None and (data / place).is_dir():
            subprocess.run([tool, *words[1:], str(data / place)], check=False, capture_output=True, timeout=60)
