"""Both spellings of config.json lead to the same model, in whichever version of transformers runs here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.oracle
pytest.importorskip("transformers")

import torch

from ckpt_gui.core.export import Target
from ckpt_gui.core.formats.sidecars import read_sidecars
from ckpt_gui.core.retarget import retarget
from ckpt_gui.core.writer import write_export
from tests.oracles import tiny

SCALINGS = {"plain": None, "llama3": tiny.LLAMA3, "linear": tiny.LINEAR}
ROPE_FIELDS = ("rope_theta", "rope_scaling", "rope_parameters", "dtype", "torch_dtype")


def spelled(config: dict[str, Any], version: int, scaling: dict[str, Any] | None) -> dict[str, Any]:
    """Return a config as version 4 or 5 of transformers writes it."""
    kept = {name: value for name, value in config.items() if name not in ROPE_FIELDS}
    if version == 4:
        return kept | {"rope_theta": tiny.THETA, "rope_scaling": scaling, "torch_dtype": "float32"}
    rope = {"rope_type": "default", **(scaling or {}), "rope_theta": tiny.THETA}
    return kept | {"rope_parameters": rope, "dtype": "float32"}


@pytest.mark.parametrize("kind", ["llama", "mistral"])
@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("scaling", SCALINGS)
def test_each_spelling_is_read_and_written_right(tmp_path: Path, kind: str, version: int, scaling: str) -> None:
    model = tiny.make_model(tiny.make_config(kind, scaling=SCALINGS[scaling]))
    saved = tmp_path / "saved"
    model.save_pretrained(saved)
    tiny.write_config(saved, spelled(tiny.raw_config(saved), version, SCALINGS[scaling]))
    tiny.assert_clean(saved)
    out = tiny.export(saved, tmp_path / "out")
    assert torch.equal(tiny.logits_of(tiny.load(out)), tiny.logits_of(model))
    meta = tiny.export(saved, tmp_path / "meta", "meta")
    back = tiny.export(meta, tmp_path / "back")
    assert torch.equal(tiny.logits_of(tiny.load(back)), tiny.logits_of(model))
    assert tiny.config_of(back) == tiny.config_of(out)


def test_oldest_spelling_of_scaling(tmp_path: Path) -> None:
    """Before 4.43 the kind was called `type`."""
    model = tiny.make_model(tiny.make_config(scaling=tiny.LINEAR))
    saved = tmp_path / "saved"
    model.save_pretrained(saved)
    tiny.write_config(saved, spelled(tiny.raw_config(saved), 4, {"type": "linear", "factor": 4.0}))
    out = tiny.export(saved, tmp_path / "out")
    assert torch.equal(tiny.logits_of(tiny.load(out)), tiny.logits_of(model))


def test_a_config_without_kv_heads_and_head_dim(tmp_path: Path) -> None:
    """As OpenLLaMA has it: every head has its own keys."""
    model = tiny.make_model(tiny.make_config(num_key_value_heads=6, head_dim=8))
    saved = tmp_path / "saved"
    model.save_pretrained(saved)
    config = spelled(tiny.raw_config(saved), 4, None)
    tiny.write_config(saved, {k: v for k, v in config.items() if k not in ("num_key_value_heads", "head_dim")})
    tiny.assert_clean(saved)
    back = tiny.export(tiny.export(saved, tmp_path / "tune", "torchtune"), tmp_path / "back")
    assert torch.equal(tiny.logits_of(tiny.load(back)), tiny.logits_of(model))


def test_a_config_that_lies_follows_the_tensors(tmp_path: Path) -> None:
    """transformers refuses the folder as it is, and loads what we make of it."""
    model = tiny.make_model(tiny.make_config())
    saved = tmp_path / "saved"
    model.save_pretrained(saved)
    tiny.write_config(saved, tiny.raw_config(saved) | {"vocab_size": 78, "intermediate_size": 96})
    with pytest.raises(RuntimeError):
        tiny.load(saved)
    out = tiny.export(saved, tmp_path / "out")
    assert torch.equal(tiny.logits_of(tiny.load(out)), tiny.logits_of(model))


@pytest.mark.parametrize("start", ["hf", "meta", "torchtune"])
@pytest.mark.parametrize("kind", ["llama", "mistral"])
def test_the_base_folder_says_what_the_source_does_not(tmp_path: Path, kind: str, start: str) -> None:
    """Bare weights and `--base`: head counts for the rows, the tie flag and the family come from there."""
    model = tiny.make_model(tiny.make_config(kind, tied=True, scaling=tiny.LLAMA3))
    model.save_pretrained(tmp_path / "base")
    there = tiny.export(tmp_path / "base", tmp_path / "there", start)
    for path in there.glob("*.json"):
        path.unlink()
    base = read_sidecars(str(tmp_path / "base"))[0]
    export = retarget(tiny.plan_of(there), Target("hf", base=base))
    assert not [f for f in export.findings if f.code in ("config-missing", "family-ambiguous", "heads-unknown")]
    write_export(export, tmp_path / "out")
    assert tiny.differing(tiny.read(tmp_path / "out"), tiny.read(tmp_path / "base")) == []
    assert tiny.config_of(tmp_path / "out") == tiny.config_of(tmp_path / "base")
    assert torch.equal(tiny.logits_of(tiny.load(tmp_path / "out")), tiny.logits_of(model))
