"""The row about disks that can share blocks (XFS, btrfs, APFS): a rename there takes no room, and no time to copy.

Where the benchmark's folder is on such a disk, it is used; else one is made in a file and mounted, which needs Linux,
root and mkfs.xfs. Where that cannot be, the row says so.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from tests.bench.bench import Bench
from tests.bench.exports import QUICK, SYNCED
from tests.bench.files import remove
from tests.bench.process import Failed, Sample, measured
from tests.bench.race import Aim, Quantity, Race, Task
from tests.bench.shapes import nbytes

ROOM = Quantity("", ("room",))
CP = "cp --reflink=never"
SPARE = 400 << 20  # bytes that the disk needs for itself


def reflinks(bench: Bench) -> Iterator[Race]:
    """Yield the row."""
    disk = Disk(bench.files.work, 4 * nbytes(bench.size) + SPARE)
    source = disk.folder / "model.safetensors"

    def make() -> None:
        bench.files.make_hf()
        disk.open()
        remove(source)
        bench.processes.command("cp", "--reflink=auto", str(bench.files.weights), str(source))

    def finish() -> None:
        remove(source)
        disk.close()

    yield Race(
        "reflink",
        (Task("ours", lambda: _shared(bench, source, disk.folder / "out")),
         Task(CP, lambda: _copied(bench, source, disk.folder / "copy"))),
        (Aim("quick", f"rename where blocks are shared, before verification, no sync, against {CP}", 1.2, QUICK,
             peer=CP),
         Aim("synced", f"rename where blocks are shared, before verification, both synced, against {CP}", 1.2,
             SYNCED, peer=CP),
         Aim("room", "rename where blocks are shared, room taken, of what was written", 0.01, ROOM, "value")),
        make, finish,
    )  # fmt: skip


def _shared(bench: Bench, source: Path, out: Path) -> Sample:
    remove(out)
    sample = bench.job("export", str(source), str(out), "same", bench.workers)
    remove(out)
    return sample | {"room": 1 - sample["shared"] / sample["nbytes"]}


def _copied(bench: Bench, source: Path, copy: Path) -> Sample:
    remove(copy)
    sample = bench.processes.command("cp", "--reflink=never", str(source), str(copy))
    waited = bench.processes.command("sync", str(copy))
    remove(copy)
    return sample | {"wall": sample["wall"] + waited["wall"], "sync": waited["wall"]}


class Disk:
    """A folder on a disk that can share blocks.

    Attributes:
        folder: Beside the files to measure with if their disk can; else where another one is mounted.
    """

    def __init__(self, work: Path, size: int) -> None:
        """Think of a folder in `work`, on a disk of so many bytes if one has to be made."""
        self.folder, self._image, self._size = work / f"disk-{os.getpid()}", work / f"disk-{os.getpid()}.img", size

    def open(self) -> None:
        """Make the folder, and the disk if there is none.

        Raises:
            Failed: None can be made here.
        """
        self.folder.mkdir(parents=True)
        if can_share(self.folder):
            return
        reason = _why_not()
        if reason:
            raise Failed(f"the disk of {self.folder.parent} cannot share blocks, and {reason}")
        with self._image.open("wb") as file:
            file.truncate(self._size)
        measured(["mkfs.xfs", "-q", "-m", "reflink=1", str(self._image)])
        measured(["mount", "-o", "loop", str(self._image), str(self.folder)])

    def close(self) -> None:
        """Remove all of it."""
        if os.path.ismount(self.folder):
            measured(["umount", str(self.folder)])
        self._image.unlink(missing_ok=True)
        remove(self.folder)


def can_share(folder: Path) -> bool:
    """Say whether a copy in that folder can share the original's blocks."""
    one, two = folder / "one", folder / "two"
    one.write_bytes(bytes(8192))
    try:
        measured(["cp", "--reflink=always", str(one), str(two)])
    except Failed:
        return False
    finally:
        remove(one)
        remove(two)
    return True


def _why_not() -> str:
    """Say why no disk can be made here; empty if one can."""
    if os.geteuid() != 0:
        return "to mount one that can needs root"
    lacking = [name for name in ("mkfs.xfs", "mount") if shutil.which(name) is None]
    return f"there is no {' and no '.join(lacking)} here" if lacking else ""
