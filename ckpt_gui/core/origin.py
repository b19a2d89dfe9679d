"""Where a shard job reads from: enough to open it again in another process, and to see that it is the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack

from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.formats.registry import open_part
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.remote.address import has_secret
from ckpt_gui.core.source import Reader, Source, SourceFile
from ckpt_gui.core.tensors import TensorRef
from ckpt_gui.dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Origin:
    """The part of a source that a job reads.

    Attributes:
        path: What was opened.
        container: Its kind.
        files: The files to open one by one, with the identity that they had.
        whole: The files of a checkpoint that is opened as one (a distributed one), else none.
        taken: The file by which one of several models in a folder was chosen.
        in_memory: True if there is nothing that another process could open.
    """

    path: str
    container: str
    files: tuple[SourceFile, ...]
    whole: tuple[SourceFile, ...] = ()
    taken: str = ""
    in_memory: bool = False


def origin_of(source: Source, refs: Iterable[TensorRef]) -> Origin:
    """Return what must be opened to read some tensors of a source."""
    needed = {ref.file for ref in refs}
    by_name = {file.name: file for file in source.files}
    files = tuple(by_name[name] for name in sorted(needed & by_name.keys() & source.readers.keys()))
    rest = needed - {file.name for file in files}
    whole = tuple(file for file in source.files if file.name not in source.readers) if rest else ()
    return Origin(source.path, source.container, files, whole, source.taken, in_memory=bool(rest) and not whole)


def lasting(file: SourceFile) -> tuple[object, ...]:
    """Return what stays the same of an unchanged file on every machine that has it: name, path, size, time.

    Device numbers differ from mount to mount.
    """
    return (file.name, file.path, file.size, *(file.identity[3:4] if len(file.identity) == 5 else file.identity))


def open_origin(origin: Origin) -> Source:
    """Open what a job reads. Damaged files are opened for what is whole: those who made the job have agreed to it.

    Raises:
        CheckpointError: It cannot be opened here, or is not as it was.
    """
    readers: dict[str, Reader] = {}
    checksums: dict[tuple[str, str], tuple[int, int]] = {}
    with ExitStack() as opened:
        found: list[SourceFile] = []
        for file in origin.files:
            part = open_part(file.path, file.name, salvage=True)
            opened.callback(part.reader.close)
            readers[file.name] = part.reader
            checksums |= part.checksums
            found += part.files
        if origin.whole:
            source = opened.enter_context(open_checkpoint(origin.path, salvage=True, take=origin.taken or None))
            readers |= source.readers
            checksums |= source.checksums
            found += source.files
        _check_same((*origin.files, *origin.whole), {file.name: file for file in found})
        opened.pop_all()
    return Source(origin.path, origin.container, (), tuple(found), readers=readers, checksums=checksums)


def check_reachable(origins: Iterable[Origin], *, same_process: bool) -> None:
    """Raise if jobs could not open what they read, before the first of them begins.

    Args:
        origins: What they read.
        same_process: True if they work on threads of this process, which knows the secrets of addresses.

    Raises:
        CheckpointError: It is held in memory, or its address has a secret: none is sent from process to process.
    """
    for origin in origins:
        if origin.in_memory:
            text = "Tensors that are held in memory cannot be written by other processes."
            raise CheckpointError("target-refused", text, fix="Write them without an executor.")
        if same_process:
            continue
        secret = next((file.path for file in (*origin.files, *origin.whole) if has_secret(file.path)), None)
        if secret is not None:
            text = (
                f"{safe_text(secret)} is read with a password or a signature in its address, "
                "which is not sent to other processes."
            )
            fix = "Sign in the way its own tools do, on every machine that works, or write without a cluster."
            raise CheckpointError("target-refused", text, fix=fix, path=secret)


def _check_same(wanted: Iterable[SourceFile], found: Mapping[str, SourceFile]) -> None:
    for file in wanted:
        if file.name not in found or lasting(found[file.name]) != lasting(file):
            text = f"{safe_text(file.path)} is not as it was when the export was planned."
            raise CheckpointError("damaged", text, fix="Plan it again once no other program writes to it.",
                                  path=file.path)  # fmt: skip
