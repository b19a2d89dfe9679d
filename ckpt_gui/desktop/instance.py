"""One process a user and screen: a second start hands what it was asked for to the one that runs.

This half needs no Qt, so that the second start is over before a window could be made. The half that listens is
`gui.door`. Both meet at a socket in a folder that nobody else may enter; who answers must be the same user. A message
is one line of JSON of bounded length, and the answer one short word: anything else, or silence, and the second start
opens a window of its own.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ckpt_gui.dataclasses import asdict, dataclass

if TYPE_CHECKING:
    import socket

VERSION = 1
LONGEST = 1 << 18  # bytes of a message: ten thousand paths fit
MOST_PATHS = 10_000
TAKEN = b"taken\n"
PATIENCE = 3.0  # seconds until the other one counts as hung
_LONGEST_ADDRESS = 100  # bytes: systems have room for 104 to 108


@dataclass(frozen=True, slots=True)
class Request:
    """What a start was asked for.

    Attributes:
        paths: Checkpoints to open; absolute paths, or addresses.
        select: Key of the tensor to select.
        filter: Text for the filter box.
        view: Name of the view to show.
        against: What to compare with.
        new_window: True if it shall be a window of its own.
        token: What the desktop lets the window come to the front with; empty where it has no such thing.
        plan: A fix plan to take over; an absolute path.
    """

    paths: tuple[str, ...] = ()
    select: str = ""
    filter: str = ""
    view: str = ""
    against: str = ""
    new_window: bool = False
    token: str = ""
    plan: str = ""

    def encode(self) -> bytes:
        """Return the request as one line."""
        return json.dumps({"version": VERSION, **asdict(self)}).encode() + b"\n"


def decode(line: bytes) -> Request:
    """Return the request of a line.

    Raises:
        ValueError: It is not one of ours.
    """
    found = json.loads(line)
    if not isinstance(found, dict) or found.pop("version", None) != VERSION:
        raise ValueError("no request of this version")
    paths = found.pop("paths", None)
    if not isinstance(paths, list) or len(paths) > MOST_PATHS or not all(isinstance(path, str) for path in paths):
        raise ValueError("no paths")
    kinds = {name: bool if name == "new_window" else str for name in Request.__slots__ if name != "paths"}
    if set(found) - set(kinds) or not all(isinstance(found.get(name, kind()), kind) for name, kind in kinds.items()):
        raise ValueError("other fields than a request has")
    return Request(tuple(paths), **found)


def address(environment: Mapping[str, str] = os.environ) -> str:
    """Return where the process of this user and screen listens; empty where there is no safe place.

    Args:
        environment: Tells the screen: a window on another one helps nobody.
    """
    import hashlib  # like socket and tempfile not before the window is painted

    screen = [environment.get(name, "") for name in ("WAYLAND_DISPLAY", "DISPLAY", "QT_QPA_PLATFORM")]
    name = "ckpt-gui-" + hashlib.sha256("\0".join([*screen, str(VERSION)]).encode()).hexdigest()[:12]
    if sys.platform == "win32":
        return rf"\\.\pipe\{name}-{hashlib.sha256(os.path.expanduser('~').encode()).hexdigest()[:12]}"
    folder = _private_folder(environment)
    found = str(folder / name) if folder else ""
    return found if len(os.fsencode(found)) <= _LONGEST_ADDRESS else ""


def absolute(path: str) -> str:
    """Return a path that means the same in another folder; addresses stay."""
    return path if "://" in path else os.path.abspath(path)


def activation_token(environment: Mapping[str, str] = os.environ) -> str:
    """Return what the desktop gave this start to come to the front with."""
    return environment.get("XDG_ACTIVATION_TOKEN", "") or environment.get("DESKTOP_STARTUP_ID", "")


def hand_over(where: str, request: Request) -> bool:
    """Hand a request to the process that listens; return False if nobody takes it."""
    message = request.encode()
    if not where or len(message) > LONGEST or len(request.paths) > MOST_PATHS:
        return False
    with contextlib.suppress(OSError):  # nobody listens, or hangs up: the caller opens a window
        return (_ask_pipe if sys.platform == "win32" else _ask_socket)(where, message)
    return False


def _ask_socket(where: str, message: bytes) -> bool:
    import socket

    if not stat.S_ISSOCK(os.lstat(where).st_mode):
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        line.settimeout(PATIENCE)
        line.connect(where)
        if not _same_user(line):
            return False
        line.sendall(message)
        answer = b""
        while len(answer) < len(TAKEN) and (part := line.recv(len(TAKEN) - len(answer))):
            answer += part
    return answer == TAKEN


def _ask_pipe(where: str, message: bytes) -> bool:
    with open(where, "r+b", buffering=0) as pipe:
        pipe.write(message)
        return pipe.read(len(TAKEN)) == TAKEN


def _same_user(line: socket.socket) -> bool:
    """Return whether this user's process is at the other end, where the system can tell; the folder is private."""
    import socket
    import struct

    option: Any = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return True
    size = struct.calcsize("3i")
    _, user, _ = struct.unpack("3i", line.getsockopt(socket.SOL_SOCKET, option, size))
    return bool(user == os.getuid())


def _private_folder(environment: Mapping[str, str]) -> Path | None:
    """Return a folder of this user that nobody else may enter."""
    import tempfile

    given = environment.get("XDG_RUNTIME_DIR", "")
    if given and _is_private(Path(given)):
        return Path(given)
    made = Path(tempfile.gettempdir()) / f"ckpt-gui-{os.getuid()}"
    with contextlib.suppress(OSError):  # it is there already, or can not be made: looked at next
        made.mkdir(mode=0o700)
    return made if _is_private(made) else None


def _is_private(folder: Path) -> bool:
    try:
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077
