"""The files to measure with, each made when it is first wanted and kept for the next run.

What is in memory is read anew before a race, so that the first round finds it there as the others do.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from tests.bench.process import PEERS, Processes
from tests.bench.pythons import python_with
from tests.bench.shapes import make_hf, nbytes
from tests.bench.sparse import Shape, make_sparse
from tests.bench.wide import make_many, make_wide

OUTPUTS = 5  # files of that size that lie on the disk at once: the model, Meta's, its twin, what is written, a copy
SMALLER = "135m"


def size_that_fits(folder: Path, size: str) -> str:
    """Return the size, or a smaller one if its files are not there yet and the disk has no room for them."""
    if (folder / f"llama-{size}").exists():
        return size
    folder.mkdir(parents=True, exist_ok=True)
    return size if shutil.disk_usage(folder).free > OUTPUTS * nbytes(size) else SMALLER


class Files:
    """Paths, which may be named before anything is there, and what makes it."""

    def __init__(self, folder: Path, size: str, processes: Processes, oracles: Path) -> None:
        """Keep everything in `folder`."""
        self.folder, self.size, self._processes, self._oracles = folder, size, processes, oracles
        self.work = folder / f"llama-{size}"
        self.hf, self.meta, self.twin = self.work / "hf", self.work / "meta", self.work / "twin"
        self.weights, self.pth = self.hf / "model.safetensors", self.meta / "consolidated.00.pth"
        self.same = self.twin / self.weights.name
        self.fp32 = folder / "llama-135m-fp32" / "model.safetensors"
        self.out, self.copy = self.work / f"out-{os.getpid()}", self.work / f"copy-{os.getpid()}"
        self.many, self.many_pth = folder / "many" / "model.safetensors", folder / "many" / "pth" / "model.pt"

    def clear(self) -> None:
        """Remove what was written while something was measured."""
        remove(self.out)
        remove(self.copy)

    def make_hf(self) -> None:
        """Make a model in Hugging Face's layout, one file."""
        make_hf(self.hf, self.size)
        warm(self.weights)

    def make_meta(self) -> None:
        """Make the same model in Meta's layout."""
        self.make_hf()
        if not self.pth.exists():
            self._processes.job("export", str(self.hf), str(self.meta), "meta", "2")
        warm(self.pth)

    def make_twin(self) -> None:
        """Make a copy of the model."""
        self.make_hf()
        if not self.same.exists():
            shutil.copytree(self.hf, self.twin, dirs_exist_ok=True)
        warm(self.same)

    def make_fp32(self) -> None:
        """Make a smaller model in fp32."""
        make_hf(self.fp32.parent, SMALLER, "fp32")
        warm(self.fp32)

    def make_many(self) -> None:
        """Make a file of very many small tensors."""
        make_many(self.many)
        warm(self.many)

    def make_many_pth(self) -> None:
        """Make the same as a file of torch's."""
        self.make_many()
        if not self.many_pth.exists():
            python = python_with(("torch", "safetensors"), self._oracles) or "python"
            self._processes.job("as_torch", str(self.many), str(self.many_pth), module=PEERS, python=python)
        warm(self.many_pth)

    def wide(self, size: str) -> Path:
        """Return the folder of a model of very many small tensors."""
        return self.folder / "wide" / size

    def make_wide(self, size: str) -> None:
        """Make it: headers, and holes for weights."""
        make_wide(self.wide(size), size)

    def sparse(self, shape: Shape) -> Path:
        """Return the folder of a whole model that takes no room."""
        return self.folder / "sparse" / f"{shape.name}-{shape.shards}"

    def make_sparse(self, shape: Shape) -> None:
        """Make it: headers, and holes for weights."""
        make_sparse(self.sparse(shape), shape)


def remove(path: Path) -> None:
    """Remove an output, be it a file or a folder."""
    shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)


def warm(path: Path) -> None:
    """Read a file, so that the system has it in memory."""
    for _ in _blocks(path):
        pass


def chill(path: Path) -> None:
    """Ask the system to forget a file."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb", buffering=0) as file:
        while block := file.read(4 << 20):
            yield block
