"""The folder that an export goes to: checked before, filled beside, put in place at the end.

Everything is written to a hidden sibling, `.ckpt-gui-NAME-….part`, on the same file system, and renamed when it is
whole and verified. A full target is swapped in one step where the system can (renameat2 with exchange), else by two
renames. Nothing that looks complete is ever left by a failed or cancelled export.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.tensors import Source

PREFIX, SUFFIX = ".ckpt-gui-", ".part"
MARGIN = 16 << 20  # bytes kept free beside what will be written
_RENAME_EXCHANGE = 2
_AT_FDCWD = -100


def check_target(folder: Path, source: Source, *, overwrite: bool, nbytes: int) -> None:
    """Refuse a target that can not or must not be written, before anything is created.

    Args:
        folder: Where the export shall be.
        source: What it is made from.
        overwrite: True if the user agreed to replace a folder that is not empty.
        nbytes: Bytes that will be written.

    Raises:
        CheckpointError: With the reason.
    """
    shown = safe_text(str(folder))
    if folder.is_symlink():
        raise _refused(f"{shown} is a symbolic link.", "Name the folder itself.")
    file = next((p for p in (folder, *folder.absolute().parents) if p.exists() and not p.is_dir()), None)
    if file is not None:
        raise _refused(f"{safe_text(str(file))} is a file, not a folder.", "Name a folder that does not exist yet.")
    for path in _source_paths(source):
        _check_apart(folder, path)
    if folder.is_dir() and any(folder.iterdir()) and not overwrite:
        count = sum(1 for _ in folder.iterdir())
        held = f"{count:,} files" if count > 1 else "1 file"
        raise _refused(f"{shown} is not empty: it holds {held}.", "Name another folder, or allow --overwrite.")
    parent = existing_parent(folder)
    if not os.access(parent, os.W_OK):
        raise _refused(f"{safe_text(str(parent))} may not be written to.", "Choose another place.")
    free = shutil.disk_usage(parent).free
    if free < nbytes + MARGIN:
        raise _refused(
            f"{nbytes + MARGIN:,} bytes are needed at {safe_text(str(parent))}, and {free:,} are free.",
            "Free some space or choose another disk.",
        )


def existing_parent(folder: Path) -> Path:
    """Return the nearest folder above that exists."""
    return next(p for p in folder.absolute().parents if p.is_dir())


def _source_paths(source: Source) -> Iterator[Path]:
    folder = [Path(source.path)] if source.is_folder and Path(source.path).is_dir() else []
    return (p for p in (*folder, *(Path(f.path) for f in source.files)) if p.exists())


def _check_apart(folder: Path, path: Path) -> None:
    target, origin = folder.resolve(), path.resolve()
    same = target == origin or (folder.exists() and os.path.samefile(folder, path))
    inside = path.is_dir() and origin in target.parents
    holds = target in origin.parents
    if same or inside or holds:
        how = "is" if same else "lies inside" if inside else "holds"
        raise _refused(
            f"{safe_text(str(folder))} {how} the source {safe_text(str(path))}: nothing is written over a source.",
            "Choose a folder beside it.",
        )


def _refused(message: str, fix: str) -> CheckpointError:
    return CheckpointError("target-refused", message, fix=fix)


@contextlib.contextmanager
def staged(folder: Path) -> Iterator[Path]:
    """Give a hidden sibling to write to; remove it when the block fails.

    The block puts it in place by `commit`; after that there is nothing to remove.
    """
    folder.absolute().parent.mkdir(parents=True, exist_ok=True)
    name = folder.name.encode()[:100].decode(errors="ignore")
    part = folder.absolute().parent / f"{PREFIX}{name}-{os.getpid()}-{secrets.token_hex(4)}{SUFFIX}"
    part.mkdir()
    try:
        yield part
    finally:
        if part.exists():
            shutil.rmtree(part, ignore_errors=True)


def commit(part: Path, folder: Path, *, overwrite: bool) -> None:
    """Put a finished part in place.

    Raises:
        CheckpointError: Somebody else filled the target meanwhile.
    """
    sync_folder(part)
    if folder.is_dir() and any(folder.iterdir()):
        if not overwrite:
            raise _refused(f"{safe_text(str(folder))} was filled by another program meanwhile.", "Try again.")
        _swap(part, folder)
    else:
        if folder.is_dir() and os.name == "nt":
            folder.rmdir()
        os.rename(part, folder)
    sync_folder(folder.absolute().parent)


def _swap(part: Path, folder: Path) -> None:
    """Exchange part and folder, then remove what was there before."""
    if _exchange(part, folder):
        shutil.rmtree(part, ignore_errors=True)
        return
    old = part.with_name(part.name.removesuffix(SUFFIX) + "-old" + SUFFIX)
    os.rename(folder, old)
    try:
        os.rename(part, folder)
    except OSError:
        os.rename(old, folder)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _exchange(part: Path, folder: Path) -> bool:
    """Swap two folders in one step; False where the system can not."""
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError, TypeError):
        return False
    done = renameat2(_AT_FDCWD, os.fsencode(part), _AT_FDCWD, os.fsencode(folder.absolute()), _RENAME_EXCHANGE)
    return bool(done == 0)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable, where the system knows such a thing."""
    if os.name == "nt":
        return
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(fd)


def write_text(path: Path, text: str) -> None:
    """Write a small file durably."""
    with path.open("x", encoding="utf-8", newline="\n") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def copy_file(origin: Path, path: Path) -> None:
    """Copy a sidecar's content durably (a link is followed, its mode is not taken over)."""
    with origin.open("rb") as source, path.open("xb") as file:
        shutil.copyfileobj(source, file, 1 << 20)
        file.flush()
        os.fsync(file.fileno())


def leftovers(folder: Path) -> tuple[Path, ...]:
    """Return what killed exports have left beside a folder's future place: only our own hidden names."""
    parent = folder if folder.is_dir() else existing_parent(folder)
    return tuple(sorted(p for p in _listed(parent) if p.name.startswith(PREFIX) and p.name.endswith(SUFFIX)))


def abandoned(folder: Path) -> tuple[Path, ...]:
    """Return those leftovers beside a target whose program no longer runs: they can be removed."""
    return tuple(p for p in leftovers(existing_parent(folder)) if not _runs(p))


def _runs(part: Path) -> bool:
    """Return True if the program that made a part is still there, by the process number in its name."""
    number = part.name.removesuffix(SUFFIX).removesuffix("-old").split("-")[-2:][0]
    if os.name == "nt" or not number.isascii() or not number.isdigit():
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _listed(folder: Path) -> Iterable[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return ()
