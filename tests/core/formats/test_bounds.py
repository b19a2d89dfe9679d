"""Hostile files in a process that may have two gigabytes: what each of them costs at most, measured from outside.

Memory is asserted, time is not: how long a machine takes says nothing about the file. What never ends is ended by the
limits of the readers, or by the guard of the test. `--junitxml FILE -o junit_family=xunit1` tells both.
"""

from __future__ import annotations

import io
import json
import os
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from tests import builders as b
from tests.core.formats.test_torch_legacy import stream

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no such limits there")

W = np.arange(6, dtype=np.float32)
CHILD = """
import json, resource, sys, time
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.normalise import understand
from ckpt_gui.core.stats import tensor_stats
from tests.memory import growth

resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))

def look(path):
    try:
        with open_checkpoint(path) as source:
            if len(source.refs) < 10_000:
                understand(source)
            for ref in source.refs[:3]:
                source.read(ref, 0, min(ref.nbytes, 1000))
                source.read(ref, max(ref.nbytes - 1000, 0))
            small = [ref for ref in source.refs if ref.nbytes < 200 << 20][-1:]
            for ref in small:
                tensor_stats(source, ref)
            return "opened", len(source.refs)
    except CheckpointError as error:
        return error.code, 0

look(sys.argv[1])
began = time.monotonic()
with growth() as grown:
    outcome, count = look(sys.argv[2])
print(json.dumps([outcome, count, grown.megabytes, time.monotonic() - began]))
"""


class Hostile(NamedTuple):
    """A file and what it may cost.

    Attributes:
        make: Writes it to a path, which may become a folder.
        outcome: The code of the refusal, or `opened`.
        megabytes: By how much the process may grow.
        count: Tensors that are listed.
    """

    make: Callable[[Path], object]
    outcome: str
    megabytes: int
    count: int = 0


def bytes_of(data: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(data)


def header_of(length: int, size: int) -> Callable[[Path], object]:
    def make(path: Path) -> None:
        path.write_bytes(struct.pack("<Q", length) + b"{")
        os.truncate(path, size)

    return make


def overlaps(path: Path) -> None:
    entry = ':{"dtype":"F32","shape":[6],"data_offsets":[0,24]}'
    text = "{" + ",".join(f'"layers.{i}.w"{entry}' for i in range(1_000_000)) + "}"
    path.write_bytes(struct.pack("<Q", len(text)) + text.encode() + W.tobytes())


def empties(path: Path) -> None:
    header = {f"layers.{i}.weight": b.entry("F32", [0], 0, 0) for i in range(100_000)}
    path.write_bytes(b.raw_safetensors(header))


def six_gigabytes(path: Path) -> None:
    sizes = {"a": 3 << 30, "b": 3 << 30, "c": 100 << 20}
    header, at = {}, 0
    for key, size in sizes.items():
        header[key], at = b.entry("U8", [size], at, at + size), at + size
    raw = b.raw_safetensors(header)
    path.write_bytes(raw)
    os.truncate(path, len(raw) + at)


def large_index(path: Path) -> None:
    path.mkdir()
    b.write(path / "x.safetensors", b.safetensors_bytes({"a": W}, {"format": "pt"}))
    keys = {f"model.layers.{i}.self_attn.some_long_name_of_a_weight": "x.safetensors" for i in range(900_000)}
    b.write(path / "model.safetensors.index.json", b.index_bytes({"a": "x.safetensors"} | keys))
    assert (path / "model.safetensors.index.json").stat().st_size > 64 << 20


def loop_of_links(path: Path) -> None:
    path.mkdir()
    (path / "a.safetensors").symlink_to("b.safetensors")
    (path / "b.safetensors").symlink_to("a.safetensors")
    b.write(path / "model.safetensors.index.json", b.index_bytes({"a": "a.safetensors", "b": "b.safetensors"}))


def bomb(path: Path) -> None:
    """300 MB of zeros in 300 KB."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("a/data.pkl", b.pickled(b.dict_of({"w": b.tensor("0", [18 << 22])})))
        with archive.open("a/data/0", "w") as record:
            for _ in range(18):
                record.write(bytes(1 << 24))


def laughs(levels: int) -> bytes:
    out = b"]q\x00"
    for i in range(levels):
        out += b"](" + b"h" + bytes([i]) + b"h" + bytes([i]) + b"eq" + bytes([i + 1])
    return b.list_of(out)


def torch_of(body: bytes) -> Callable[[Path], object]:
    return bytes_of(b.torch_bytes(body, {"0": W}))


def many_storages(path: Path) -> None:
    body = b.dict_of({f"w{i}": b.tensor(str(i), [1]) for i in range(20_000)})
    path.write_bytes(b.torch_bytes(body, {str(i): W[:1] for i in range(20_000)}))


def large_array(path: Path) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        header = repr({"descr": "<f4", "fortran_order": False, "shape": (1 << 50,)}).encode()
        archive.writestr("w.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(1 << 20))
    path.write_bytes(out.getvalue())


CYCLE = b"}q\x01(" + b.text("self") + b"h\x01" + b.text("w") + b.tensor("0", [6]) + b"u"
FILES = {
    "3 a header of 2^63 bytes": Hostile(header_of(1 << 63, 100), "not-a-checkpoint", 5),
    "3 a header longer than the file": Hostile(header_of(10_000_000, 100), "truncated", 5),
    "4 a header of 100,000,001 bytes": Hostile(header_of(100_000_001, 200_000_000), "damaged", 5),
    "16 a million overlaps": Hostile(overlaps, "damaged", 900),
    "28 lists 200,000 deep": Hostile(
        bytes_of(b.raw_safetensors(b'{"a":' + b"[" * 200_000 + b"]" * 200_000 + b"}")), "damaged", 50
    ),
    "30 a hundred thousand tensors": Hostile(empties, "opened", 200, 100_000),
    "31 a name of a megabyte": Hostile(
        bytes_of(b.raw_safetensors({"k" * (1 << 20): b.entry("F32", [6], 0, 24)}, W.tobytes())), "opened", 80, 1
    ),
    "39 107 six gigabytes": Hostile(six_gigabytes, "opened", 300, 3),
    "48 an index of 64 MB": Hostile(large_index, "opened", 500, 1),
    "48 links in a circle": Hostile(loop_of_links, "not-a-checkpoint", 5),
    "57 two billion elements": Hostile(
        bytes_of(stream(b.dict_of({"w": b.tensor("0", [2_000_000_000])}), {"0": W}, counts={"0": 2_000_000_000})),
        "truncated",
        50,
    ),
    "60 elements without end": Hostile(
        torch_of(b.dict_of({"w": b.tensor("0", [1 << 40, 6], numel=6, strides=[0, 1])})), "opened", 50, 1
    ),
    "63 a bomb": Hostile(bomb, "limit-exceeded", 50),
    "63 an array that claims petabytes": Hostile(large_array, "damaged", 50),
    "76 a cycle": Hostile(torch_of(CYCLE), "opened", 50, 1),
    "76 lists 200,000 deep": Hostile(torch_of(b"]" * 200_000 + b"a" * 199_999), "limit-exceeded", 150),
    "76 a billion laughs": Hostile(torch_of(laughs(60)), "limit-exceeded", 200),
    "80 a text of four gigabytes": Hostile(torch_of(b"X\xff\xff\xff\xffab"), "damaged", 5),
    "80 a number of two gigabytes": Hostile(torch_of(b"\x8b\xff\xff\xff\x7f"), "damaged", 5),
    "84 twenty thousand storages": Hostile(many_storages, "opened", 100, 20_000),
}


@pytest.mark.case(3, 4, 16, 28, 30, 31, 39, 48, 57, 60, 63, 76, 80, 84, 107)
@pytest.mark.parametrize("hostile", FILES.values(), ids=FILES)
def test_what_it_costs_at_most(
    tmp_path: Path, hostile: Hostile, record_property: Callable[[str, object], None]
) -> None:
    warm = b.write(tmp_path / "warm.pt", b.torch_bytes(b.dict_of({"w": b.tensor("0", [6])}), {"0": W}))
    path = tmp_path / "x.bin"
    hostile.make(path)
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(warm), str(path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    outcome, count, megabytes, seconds = json.loads(done.stdout)
    record_property("megabytes", megabytes)
    record_property("seconds", round(seconds, 3))
    assert (outcome, count) == (hostile.outcome, hostile.count)
    assert megabytes <= hostile.megabytes
