"""The folder that an export goes to: checked before, filled beside, put in place at the end.

Everything is written to a hidden sibling, `.ckpt-gui-NAME-….part`, on the same file system, and renamed when it is
whole and verified. A full target is swapped in one step where the system can (renameat2 with exchange), else by two
renames. Nothing that looks complete is ever left by a failed or cancelled export.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import hashlib
import os
import platform
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.remote.address import is_url, redacted
from ckpt_gui.core.remote.blob import Blob
from ckpt_gui.core.remote.blocks import BLOCK
from ckpt_gui.core.source import Source
from ckpt_gui.core.text import human_bytes

NAMED = 100  # bytes of a folder's name that stand in that of its hidden sibling
MARK = 6  # hexadecimal digits that stand for a machine in the name of a folder in work
KEPT = "kept"  # in the place of the process's number: nobody writes to it any more
PREFIX, SUFFIX, OLD = ".ckpt-gui-", ".part", "-old"
MARGIN = 16 << 20  # bytes kept free beside what will be written
_RENAME_EXCHANGE = 2
_AT_FDCWD = -100


def refuse_url(folder: str) -> None:
    """Raise if a target is an address.

    Raises:
        CheckpointError: `target-refused`.
    """
    if is_url(folder):
        text = f"{safe_text(redacted(folder), 400)} is an address; a checkpoint is written to a folder of this machine."
        raise _refused(text, "Name a folder, and upload it with the tools of the server.")


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
    _check_replaceable(folder, shown)
    parent = existing_parent(folder)
    if not os.access(parent, os.W_OK):
        raise _refused(f"{safe_text(str(parent))} may not be written to.", "Choose another place.")
    free = free_bytes(folder)
    if free < nbytes + MARGIN:
        raise _refused(
            f"{human_bytes(nbytes + MARGIN)} are needed at {safe_text(str(parent))}, and {human_bytes(free)} are free.",
            "Free some space or choose another disk.",
        )


def _check_replaceable(folder: Path, shown: str) -> None:
    """Refuse to replace what can be no export: those have no folders inside, a home folder or a repository has."""
    inside = sorted(p.name for p in folder.iterdir() if _is_full_folder(p)) if folder.is_dir() else []
    if inside:
        names = ", ".join(f"`{safe_text(name, 60)}`" for name in inside[:4]) + (", …" if inside[4:] else "")
        raise _refused(
            f"{shown} holds folders with files of their own ({names}); to replace it would delete them.",
            "Name another folder, or move what is in the way first.",
        )


def _is_full_folder(path: Path) -> bool:
    """True for a folder that is not empty, or that can not be looked into; links only lead to one."""
    if path.is_symlink() or not path.is_dir():
        return False
    try:
        return any(path.iterdir())
    except OSError:  # not ours to delete
        return True


def free_bytes(folder: Path) -> int:
    """Return how many bytes are free where a folder is or will be."""
    return shutil.disk_usage(existing_parent(folder)).free


def existing_parent(folder: Path) -> Path:
    """Return the nearest folder above that exists."""
    return next(p for p in folder.absolute().parents if p.is_dir())


def _source_paths(source: Source) -> Iterator[Path]:
    folder = [Path(source.path)] if source.is_folder and Path(source.path).is_dir() else []
    return (p for p in (*folder, *(Path(f.path) for f in source.files)) if p.exists())


def _check_apart(folder: Path, path: Path) -> None:
    target, origin = folder.resolve(), path.resolve()
    there, here = folder_number(target), folder_number(origin)
    same = target == origin or (there is not None and there == here)
    inside = path.is_dir() and (origin in target.parents or here in map(folder_number, target.parents))
    holds = target in origin.parents or (there is not None and there in map(folder_number, origin.parents))
    if same or inside or holds:
        how = "is" if same else "lies inside" if inside else "holds"
        raise _refused(
            f"{safe_text(str(folder))} {how} the source {safe_text(str(path))}: nothing is written over a source.",
            "Choose a folder beside it.",
        )


def folder_number(path: Path) -> tuple[int, int] | None:
    """Return device and inode: a folder that is mounted twice has two paths, and is one folder all the same."""
    try:
        info = path.stat()
    except OSError:  # it is not there
        return None
    return info.st_dev, info.st_ino


def _refused(message: str, fix: str) -> CheckpointError:
    return CheckpointError("target-refused", message, fix=fix)


Failure = BaseException | None


@contextlib.contextmanager
def staged(
    folder: Path, resumed: Path | None = None, keep: Callable[[Failure], bool] = lambda _: False
) -> Iterator[Path]:
    """Give a hidden sibling to write to; remove it, and the folders made for it, when the block fails.

    The block puts it in place by `commit`; after that there is nothing to remove.

    Args:
        folder: The target.
        resumed: What an interrupted export left: it becomes that sibling, as it is.
        keep: Asked when the block fails, with what it raised; True leaves the sibling, to be resumed.
    """
    above = folder.absolute().parent
    made = [path for path in (above, *above.parents) if not path.exists()]
    above.mkdir(parents=True, exist_ok=True)
    part = above / _hidden(folder, str(os.getpid()))
    failure: Failure = None
    try:
        if resumed is None:
            part.mkdir()
        else:
            os.rename(resumed, part)
        yield part
    except BaseException as error:
        failure = error
        raise
    finally:
        if part.exists() and keep(failure):
            os.rename(part, above / _hidden(folder, KEPT))
        elif part.exists():
            shutil.rmtree(part, ignore_errors=True)
        _remove_empty(made)


def _hidden(folder: Path, owner: str) -> str:
    return f"{PREFIX}{shortened(folder.name)}-{owner}-{machine_mark()}{secrets.token_hex(3)}{SUFFIX}"


def shortened(name: str) -> str:
    """Return as much of a folder's name as stands in that of its hidden sibling."""
    return name.encode()[:NAMED].decode(errors="ignore")


def machine_mark() -> str:
    """Return what stands for this machine (or container): numbers of processes mean nothing on another one."""
    return hashlib.sha256(platform.node().encode()).hexdigest()[:MARK]


def _remove_empty(folders: list[Path]) -> None:
    """Remove folders, the deepest first, until one holds something."""
    for folder in folders:
        try:
            folder.rmdir()
        except OSError:
            return


def commit(part: Path, folder: Path, *, overwrite: bool, seen: tuple[int, int] | None) -> None:
    """Put a finished part in place; files that replace others of the same name take over their modes.

    Args:
        part: What `staged` gave.
        folder: The target.
        overwrite: True if the user agreed to replace a folder that is not empty.
        seen: What `folder_number` said of the target when it was checked; only that folder is replaced.

    Raises:
        CheckpointError: Somebody else filled the target meanwhile.
    """
    sync_folder(part)
    if not _move(part, folder):
        if not overwrite:
            text = f"{safe_text(str(folder))} was filled by another program meanwhile."
            raise _refused(text, "Name another folder.")
        if folder_number(folder) != seen:
            text = f"{safe_text(str(folder))} was put in place by another program meanwhile; it is left as it is."
            raise _refused(text, "Name another folder, or run it again to replace that one.")
        _keep_modes(part, folder)
        _swap(part, folder)
    sync_folder(folder.absolute().parent)


def _move(part: Path, folder: Path) -> bool:
    """Rename a part to where nothing or an empty folder is; False if there is more."""
    if folder.is_dir() and any(folder.iterdir()):
        return False
    if folder.is_dir() and os.name == "nt":
        folder.rmdir()
    try:
        os.rename(part, folder)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        return False
    return True


def _keep_modes(part: Path, folder: Path) -> None:
    for new, old in [(part, folder), *((path, folder / path.name) for path in part.iterdir())]:
        if old.exists() and not old.is_symlink():
            new.chmod(stat.S_IMODE(old.stat().st_mode))


def _swap(part: Path, folder: Path) -> None:
    """Exchange part and folder, then remove what was there before."""
    if _exchange(part, folder):
        shutil.rmtree(part, ignore_errors=True)
        return
    old = part.with_name(part.name.removesuffix(SUFFIX) + OLD + SUFFIX)
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


def copy_file(origin: str, path: Path) -> None:
    """Copy a sidecar's content durably (a link is followed, its mode is not taken over).

    Raises:
        CheckpointError: The sidecar is gone or cannot be read.
        OSError: The copy cannot be written.
    """
    with path.open("xb") as file:
        for block in _blocks(origin):
            file.write(block)
        file.flush()
        os.fsync(file.fileno())


def _blocks(origin: str) -> Iterator[bytes]:
    if is_url(origin):
        yield from _fetched(Blob(origin))
        return
    try:
        with open(origin, "rb") as source:
            while block := source.read(1 << 20):
                yield block
    except OSError as error:
        text = f"{safe_text(origin)} was to be carried along and cannot be read: {error.strerror or error}."
        raise CheckpointError("target-refused", text, fix="Open the checkpoint again.", path=origin) from error


def _fetched(blob: Blob) -> Iterator[bytes]:
    for start in range(0, blob.stat.size, BLOCK):
        block = bytearray(min(BLOCK, blob.stat.size - start))
        blob.read_into(start, memoryview(block))
        yield bytes(block)
