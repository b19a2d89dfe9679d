"""A file that ends in zeros is said to be unfinished once, and not tensor by tensor."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.normalise import normalise
from ckpt_gui.core.scan import zero_tail
from ckpt_gui.core.scan.run import scan
from tests import builders as b
from tests.core.test_scan import healthy


def places(data: bytes) -> dict[str, int]:
    """Return where each tensor of a safetensors file begins, in the order of the file."""
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    found = {key: 8 + length + entry["data_offsets"][0] for key, entry in header.items() if key != "__metadata__"}
    return dict(sorted(found.items(), key=lambda item: item[1]))


def found_in(path: Path, data: bytes) -> list[Any]:
    with open_checkpoint(b.write(path, data)) as source:
        return list(scan(normalise(source)).findings)


DATA = b.safetensors_bytes(healthy(), {"format": "pt"})


@pytest.mark.parametrize("block", [64, 1 << 20])
def test_a_download_that_was_not_finished(tmp_path, monkeypatch, block):
    monkeypatch.setattr(zero_tail, "BLOCK", block)
    *_, (first, begin), second, third = places(DATA).items()
    at = begin + 4 * 25
    data = DATA[:at] + bytes(len(DATA) - at)
    found = found_in(tmp_path / "model.safetensors", data)
    [zeros] = [f for f in found if f.code == "zero-filled"]
    assert zeros.severity == "error"
    assert zeros.keys == (first, second[0], third[0])
    assert f"nothing but zeros from byte {at:,} on, to its end at {len(data):,}" in zeros.message
    assert "all-zero" not in [f.code for f in found]


def test_zeros_that_begin_with_a_tensor(tmp_path):
    *_, (first, at), second = places(DATA).items()
    found = found_in(tmp_path / "model.safetensors", DATA[:at] + bytes(len(DATA) - at))
    [zeros] = [f for f in found if f.code == "zero-filled"]
    assert zeros.keys == (first, second[0])
    assert f"from byte {at:,} on" in zeros.message


def test_a_single_tensor_or_one_in_the_middle_is_no_tail(tmp_path):
    *_, (last, at) = places(DATA).items()
    found = found_in(tmp_path / "last.safetensors", DATA[:at] + bytes(len(DATA) - at))
    assert [(f.code, f.keys) for f in found if "zero" in f.code] == [("all-zero", (last,))]
    tensors = healthy()
    for key in ("model.layers.1.mlp.up_proj.weight", "model.layers.2.mlp.up_proj.weight"):
        tensors[key] = np.zeros_like(tensors[key])
    found = found_in(tmp_path / "middle.safetensors", b.safetensors_bytes(tensors, {"format": "pt"}))
    assert [f.code for f in found if "zero" in f.code] == ["all-zero", "all-zero"]


def test_a_healthy_file_has_none(tmp_path):
    assert "zero-filled" not in [f.code for f in found_in(tmp_path / "model.safetensors", DATA)]
