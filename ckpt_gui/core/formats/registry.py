"""Opening a checkpoint, whatever it is: the containers in one table, chosen by content."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ckpt_gui.core.errors import Cancelled, CheckpointError, Finding
from ckpt_gui.core.formats.file_errors import SALVAGE_FIX, explain_os_error, show_path
from ckpt_gui.core.formats.files import HeldFile
from ckpt_gui.core.formats.parts import Part
from ckpt_gui.core.formats.places import open_file
from ckpt_gui.core.formats.sniff import check_name, sniff
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.remote.address import is_url
from ckpt_gui.core.source import SourceFile
from ckpt_gui.dataclasses import replace

if TYPE_CHECKING:
    from ckpt_gui.core.formats.torch_file import TorchFile

Progress = Callable[[str, int, int], None]
IsCancelled = Callable[[], bool]


def _open_safetensors(file: HeldFile, name: str, salvage: bool) -> Part:
    from ckpt_gui.core.formats.safetensors import SafetensorsReader
    from ckpt_gui.core.formats.safetensors_header import read_header

    if salvage:
        from ckpt_gui.core.formats.safetensors_salvage import salvage_header

        header = salvage_header(file, name)
    else:
        header = read_header(file, name)
    reader = SafetensorsReader(file, header)
    return Part("safetensors", name, header.refs, reader, _held(file, name), header.problems, header.metadata)


def _open_zip(file: HeldFile, name: str, salvage: bool) -> Part:
    if salvage:
        from ckpt_gui.core.formats.zip_salvage import salvage_zip

        return _torch_part(salvage_zip(file, name), file, name)
    from ckpt_gui.core.formats.zip_kinds import read_zip

    return _torch_part(read_zip(file, name), file, name)


def _open_gguf(file: HeldFile, name: str, salvage: bool) -> Part:
    from ckpt_gui.core.formats.gguf import read_gguf

    found = read_gguf(file, name, salvage=salvage)
    return Part(
        "gguf", name, found.refs, found.reader, _held(file, name), found.problems, extras=found.extras,
        config=found.config, blocks=found.blocks,
    )  # fmt: skip


def _open_legacy(file: HeldFile, name: str, salvage: bool) -> Part:
    from ckpt_gui.core.formats.torch_legacy import read_legacy

    return _torch_part(read_legacy(file, name, salvage=salvage), file, name)


def _open_tar(file: HeldFile, name: str, salvage: bool) -> Part:
    from ckpt_gui.core.formats.torch_tar import read_tar

    return _torch_part(read_tar(file, name, salvage=salvage), file, name)


def _held(file: HeldFile, name: str) -> tuple[SourceFile, ...]:
    return (SourceFile(name, file.path, file.size, file.identity),)


def _torch_part(found: TorchFile, file: HeldFile, name: str) -> Part:
    return Part(
        found.container,
        name,
        found.refs,
        found.reader,
        _held(file, name),
        found.problems,
        tree=found.tree,
        extras=found.extras,
        checksums=found.checksums,
        shards=found.shards,
    )


# The readers by kind; told to salvage, they list what is whole of a file that is cut short or damaged. Each imports its
# own when it is called: opening a file takes as long as importing what reads it, and one kind of file is opened.
CONTAINERS: Mapping[str, Callable[[HeldFile, str, bool], Part]] = {
    "safetensors": _open_safetensors,
    "zip": _open_zip,
    "gguf": _open_gguf,
    "torch-legacy": _open_legacy,
    "torch-tar": _open_tar,
}
# Those whose own message can not say what is whole of a file that is cut short.
_LISTED_BY_SALVAGE = ("zip", "torch-legacy")


def open_part(path: str, name: str, *, salvage: bool = False) -> Part:
    """Open one file.

    Args:
        path: Where it is.
        name: What the refs shall call it.
        salvage: List the whole tensors of a file that is damaged.

    Raises:
        CheckpointError: It cannot be read.
    """
    if name.endswith(".distcp"):
        text = f"{show_path(path)} is one part of a distributed torch checkpoint, which is opened as a folder."
        raise CheckpointError("not-a-checkpoint", text, fix="Open the folder that holds it.", path=path)
    file = open_file(path)
    try:
        kind = sniff(file)
        part = _read(kind, file, name, salvage)
    except BaseException:
        file.close()
        raise
    misnamed = check_name(file.name, kind)
    return _with_problems(part, misnamed) if misnamed else part


def _read(kind: str, file: HeldFile, name: str, salvage: bool) -> Part:
    try:
        return CONTAINERS[kind](file, name, False)
    except CheckpointError as error:
        if error.code not in ("truncated", "damaged"):
            raise
        if salvage:
            return CONTAINERS[kind](file, name, True)
        if error.code == "truncated" and kind in _LISTED_BY_SALVAGE:
            raise _with_rest(error, kind, file, name) from error
        raise


def _with_rest(error: CheckpointError, kind: str, file: HeldFile, name: str) -> CheckpointError:
    """Return the error of a file that is cut short with what is whole of it, and what it would run, if anything."""
    try:
        rest = CONTAINERS[kind](file, name, True)
    except CheckpointError as worse:
        if worse.code == "unsafe-pickle":
            return worse
        return CheckpointError(error.code, f"{error.message} No tensor can be listed.", path=error.path)
    unsafe = next((p for p in rest.problems if p.code == "unsafe-pickle"), None)
    if unsafe is not None:
        return CheckpointError(unsafe.code, f"{unsafe.message} {error.message}", fix=unsafe.fix, path=error.path)
    lost = tuple(key for p in rest.problems if p.code == "truncated" for key in p.keys)
    count = (
        f"{len(rest.refs):,}" if rest.container == "npz" else f"{len(rest.refs):,} of {len(rest.refs) + len(lost):,}"
    )
    first = f"; the first that is not is `{safe_text(lost[0], 80)}`" if lost else ""
    message = f"{error.message} {count} tensors are whole{first}."
    fix = SALVAGE_FIX if rest.refs else None
    return CheckpointError(error.code, message, fix=fix, path=error.path, offset=error.offset)


def _with_problems(part: Part, more: tuple[Finding, ...]) -> Part:
    return replace(part, problems=part.problems + more)


def check_path(path: str) -> None:
    """Raise if a path names nothing.

    Raises:
        CheckpointError: With a sentence.
    """
    if is_url(path):  # what is there is found out when it is asked for
        return
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError, ValueError) as error:  # the last one: a NUL in the path
        text = f"{show_path(path)} cannot be opened: there is no such file or folder."
        raise CheckpointError("not-a-checkpoint", text, path=path) from error
    except OSError as error:
        raise explain_os_error(error, path) from error


def stop_if(cancelled: IsCancelled | None) -> None:
    """Raise `Cancelled` if the user asked for it."""
    if cancelled is not None and cancelled():
        raise Cancelled
