"""A scan finds in tiny tensors, which it looks at together, what it finds in each alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ckpt_gui import dataclasses
from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.normalise import normalise
from ckpt_gui.core.scan import Scan, TensorScan, scan
from tests.core.stats.test_tiny import ITEM, near, written


def scanned(path: Path) -> Scan:
    with open_checkpoint(path) as source:
        return scan(normalise(source))


def put(path: Path, key: str, raw: bytes) -> None:
    """Write other bytes over the first ones of a tensor."""
    with open_checkpoint(path) as source:
        begin = source.place_of(next(ref for ref in source.refs if ref.key == key))
    assert begin is not None
    with path.open("r+b") as file:
        file.seek(begin)
        file.write(raw)


@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp32"])
def test_together_as_alone(tmp_path: Path, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "model.safetensors", dtype)
    put(path, "t037", bytes(7 * ITEM[dtype]))  # the first of three rows
    if dtype == "fp16":
        put(path, "t002", np.array([65504.0, 1.0, -65504.0], dtype=np.float16).tobytes())
    if dtype == "fp32":
        put(path, "t001", np.array([1.0, -70000.0], dtype=np.float32).tobytes())
    told: list[TensorScan] = []
    with open_checkpoint(path) as source:
        together = scan(normalise(source), on_result=told.append)
    monkeypatch.setattr("ckpt_gui.core.scan.run.windows", lambda *_: [])
    alone = scanned(path)
    assert len(together.tensors) == len(told) == 121
    assert together.complete
    assert together.done == alone.done == together.nbytes
    for one, two in zip(together.tensors, alone.tensors, strict=True):
        near(one.stats, two.stats)
        assert dataclasses.replace(one, stats=two.stats) == two
    assert [found.code for found in together.findings] == [found.code for found in alone.findings]
    assert any(one.odd for one in together.tensors)
    assert any(one.rows for one in together.tensors)
    if dtype == "fp16":
        assert next(one for one in together.tensors if one.ref.key == "t002").saturated == 2
    if dtype == "fp32":
        assert next(one for one in together.tensors if one.ref.key == "t001").large[0].value == "-70,000"


def test_what_cannot_be_read_is_told_of_each(tmp_path: Path) -> None:
    path = written(tmp_path / "model.safetensors", "fp32")
    with open_checkpoint(path) as source:
        plan = normalise(source)
        ref = source.refs[60]
        with path.open("r+b") as file:
            file.truncate(source.place_of(ref))
        found = scan(plan)
    assert found.complete
    assert {bool(one.error) for one in found.tensors[:60]} == {False}
    assert all("shrank while being read" in (one.error or "") for one in found.tensors[61:])
