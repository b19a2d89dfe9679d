"""What a zip archive is, by its records: a torch file, a program of torch, or arrays of NumPy."""

from __future__ import annotations

from collections.abc import Callable

from ckpt_gui.core.formats.files import HeldFile
from ckpt_gui.core.formats.npz import is_npz, read_npz
from ckpt_gui.core.formats.torch_file import TorchFile
from ckpt_gui.core.formats.torch_script import is_script, read_script
from ckpt_gui.core.formats.torch_zip import read_torch
from ckpt_gui.core.formats.zip_archive import Archive
from ckpt_gui.core.formats.zip_directory import read_archive

# The first that fits.
_KINDS: tuple[tuple[Callable[[Archive], bool], Callable[[Archive, str], TorchFile]], ...] = (
    (is_script, read_script),
    (is_npz, read_npz),
    (lambda _: True, read_torch),
)


def read_zip(file: HeldFile, name: str) -> TorchFile:
    """Parse a zip archive, whatever it holds.

    Args:
        file: The open file.
        name: What the refs shall call it.

    Raises:
        CheckpointError: It is damaged, holds no tensors, or can be read in two ways.
    """
    archive = read_archive(file)
    read = next(read for fits, read in _KINDS if fits(archive))
    return read(archive, name)
