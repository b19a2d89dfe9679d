"""The members of a tar archive (POSIX ustar and pax): their names and where they lie, nothing is unpacked."""

from __future__ import annotations

from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.formats.file_errors import SALVAGE_FIX, show_path
from ckpt_gui.core.formats.files import HeldFile
from ckpt_gui.core.keys import safe_text

BLOCK = 512
MAX_MEMBERS = 64
MAX_PAX = 1 << 16


def is_tar(head: bytes) -> bool:
    """True if a file begins with the header of a tar member."""
    return head[257:262] == b"ustar"


def read_members(file: HeldFile, *, salvage: bool = False) -> dict[str, tuple[int, int]]:
    """Return where each plain member begins, and its bytes.

    Args:
        file: The open file.
        salvage: Take what is there of a member that the end of the file cuts short.

    Raises:
        CheckpointError: A header is damaged, a member stands twice, or there are too many.
    """
    members: dict[str, tuple[int, int]] = {}
    at = 0
    extended: int | None = None
    for _ in range(MAX_MEMBERS):
        if at + BLOCK > file.size:
            return members
        header = file.read(at, BLOCK)
        if not header.strip(b"\0"):
            return members
        name, size, kind = _parse(file, header, at)
        start = at + BLOCK
        size, extended = (size if extended is None else extended), None
        if start + size > file.size and salvage and kind in (b"0", b"\0") and name not in members:
            return members | {name: (start, file.size - start)}
        if start + size > file.size:
            what = f"member `{safe_text(name, 80)}` ends at byte {start + size:,}, the file has {file.size:,}"
            raise _damaged(file, what, "truncated")
        if kind == b"x":
            extended = _pax_size(file.read(start, min(size, MAX_PAX)))
        elif kind in (b"0", b"\0"):
            if name in members:
                raise _damaged(file, f"member `{safe_text(name, 80)}` stands twice", "ambiguous-archive")
            members[name] = (start, size)
        at = start + size + -size % BLOCK
    raise _damaged(file, f"it has more than {MAX_MEMBERS} members", "limit-exceeded")


def _parse(file: HeldFile, header: bytes, at: int) -> tuple[str, int, bytes]:
    name = header[:100].split(b"\0")[0].decode("utf-8", "backslashreplace").removeprefix("./")
    field = header[124:136]
    try:
        size = int.from_bytes(field[1:], "big") if field[0] & 0x80 else int(field.strip(b" \0") or b"0", 8)
        wanted = int(header[148:156].strip(b" \0") or b"0", 8)
    except ValueError as error:
        raise _damaged(file, f"its header at byte {at:,} holds no size") from error
    if sum(header[:148]) + 8 * 32 + sum(header[156:]) != wanted or size < 0:
        raise _damaged(file, f"its header at byte {at:,} does not fit its checksum")
    return name, size, header[156:157]


def _pax_size(data: bytes) -> int | None:
    """Return the size that an extended header gives to the next member: those of 8 GB and more."""
    for line in data.split(b"\n"):
        _, _, field = line.partition(b" ")
        name, _, value = field.partition(b"=")
        if name == b"size" and value.isdigit() and len(value) < 19:
            return int(value)
    return None


def _damaged(file: HeldFile, what: str, code: str = "damaged") -> CheckpointError:
    fix = SALVAGE_FIX if code == "truncated" else None
    return CheckpointError(code, f"{show_path(file.path)} is a damaged tar archive: {what}.", fix=fix, path=file.path)
