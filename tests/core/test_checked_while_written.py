"""An export compares every checksum that the source has, also of what is not read as a whole record."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest

from ckpt_gui import normalise, write
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.formats import open_checkpoint
from tests import builders as b

torch = pytest.importorskip("torch")
W = torch.arange(3000.0).reshape(50, 60)


def views(folder):
    torch.save({"a": W[3:9], "b": W.t()}, folder / "x.pt")
    return folder / "x.pt", folder / "x.pt"


def arrays(folder):
    np.savez(folder / "x.npz", a=W.numpy())
    return folder / "x.npz", folder / "x.npz"


def parts(folder):
    from tests.core.formats.test_dcp import save_parts

    save_parts(folder / "c", {"w": W}, {"w": [((0, 0), (20, 60)), ((20, 0), (30, 60))]})
    return folder / "c", folder / "c/__1_0.distcp"


def zero(folder):
    from tests.core.formats.test_ranks import Zero

    made = Zero(2).write(folder / "z")
    return made, made / "zero_pp_rank_1_mp_rank_00_optim_states.pt"


def flip(path):
    """Flip a bit in the middle of the largest stored record."""
    data = bytearray(path.read_bytes())
    start = data.find(b"PK\x03\x04")
    with zipfile.ZipFile(io.BytesIO(bytes(data[start:]))) as archive:
        stored = [info for info in archive.infolist() if not info.filename.endswith(".pkl")]
        record = max(stored, key=lambda info: info.file_size)
    head = start + record.header_offset
    name, extra = (int.from_bytes(data[head + at : head + at + 2], "little") for at in (26, 28))
    data[head + 30 + name + extra + record.file_size // 2] ^= 4
    b.write(path, bytes(data))


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("make", [views, arrays, parts, zero])
def test_a_flipped_bit_refuses_the_export(tmp_path, make):
    path, file = make(tmp_path)
    with open_checkpoint(path) as source:
        write(normalise(source), tmp_path / "good", container="safetensors")
    flip(file)
    with open_checkpoint(path) as source, pytest.raises(CheckpointError) as caught:
        write(normalise(source), tmp_path / "out", container="safetensors")
    assert caught.value.code == "crc-mismatch"
    assert not (tmp_path / "out").exists()
