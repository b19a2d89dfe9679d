"""Attacks in files beside the model of a folder: never clean, never run, never in the way of the model."""

from __future__ import annotations

import os

import numpy as np
import pytest

from ckpt_gui.core.errors import Cancelled
from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.formats.folder_strays import strays_beside
from tests import builders as b

W = np.arange(6, dtype=np.float32)
CALL = b.call(b.name("os", "system"), b.text("true"))
ATTACK = b.pickled(b.dict_of({"a": CALL}))
HARMLESS = b.pickled(b.dict_of({"a": b.number(1)}))


def model(folder):
    return b.write(folder / "model.safetensors", b.safetensors_bytes({"w": W}))


def unsafe(folder):
    with open_checkpoint(folder) as source:
        assert [ref.key for ref in source.refs] == ["w"]
        return [p for p in source.problems if p.code == "unsafe-pickle"]


@pytest.mark.case(52)
@pytest.mark.parametrize("name", ["training_args.bin", "random_states_0.pkl", "notes", "x.joblib", "weights.ckpt"])
def test_a_bare_pickle_beside_the_weights(tmp_path, name):
    model(tmp_path)
    b.write(tmp_path / name, HARMLESS)
    assert unsafe(tmp_path) == []
    b.write(tmp_path / name, ATTACK)
    [found] = unsafe(tmp_path)
    assert found.severity == "error"
    assert not found.blocking, "the weights are whole all the same"
    assert found.message.startswith(f"{name}, beside the weights, would run code")


@pytest.mark.case(52)
@pytest.mark.parametrize("name", ["optimizer.pt", "pytorch_model.bin", "pytorch_model-00001-of-00002.bin"])
def test_a_torch_file_beside_the_weights(tmp_path, name):
    model(tmp_path)
    b.write(tmp_path / name, b.torch_bytes(b.dict_of({"w": b.tensor("0", [6])}), {"0": W}))
    assert unsafe(tmp_path) == []
    b.write(tmp_path / name, b.torch_bytes(b.dict_of({"w": b.tensor("0", [6]), "e": CALL}), {"0": W}))
    [found] = unsafe(tmp_path)
    assert found.keys == ("os.system",)
    assert "os.system" in found.message


@pytest.mark.case(52)
def test_several_are_named_together(tmp_path):
    model(tmp_path)
    for name in ("a.pkl", "b.pkl"):
        b.write(tmp_path / name, ATTACK)
    [found] = unsafe(tmp_path)
    assert found.message.startswith("a.pkl, b.pkl, beside the weights, would each run code")


def test_what_is_damaged_or_leads_out_is_left_alone(tmp_path):
    inner = tmp_path / "in"
    inner.mkdir()
    model(inner)
    b.write(tmp_path / "evil.pkl", ATTACK)
    (inner / "link.pkl").symlink_to(tmp_path / "evil.pkl")
    b.write(inner / "cut.pt", b"PK\3\4")
    os.mkfifo(inner / "pipe.pkl")
    (inner / "folder.pkl").mkdir()
    assert unsafe(inner) == []


def test_a_film_is_not_read(tmp_path, monkeypatch):
    model(tmp_path)
    b.write(tmp_path / "film.mp4", b"\0\0\0\x20ftypisom" + bytes(100))
    opened = []
    monkeypatch.setattr("ckpt_gui.core.formats.folder_strays.open_part", lambda _, name: opened.append(name))
    assert unsafe(tmp_path) == []
    assert opened == []


def test_it_can_be_stopped(tmp_path):
    b.write(tmp_path / "a.pkl", ATTACK)
    with pytest.raises(Cancelled):
        strays_beside(str(tmp_path), (), lambda: True)
