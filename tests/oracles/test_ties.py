"""The tied pair: no export lets a loader throw a trained head away, or run without its embedding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.oracle
transformers = pytest.importorskip("transformers")

import torch
from safetensors.torch import load_file, save_file, save_model

from ckpt_gui import write
from ckpt_gui.core.families.registry import BY_NAME, FAMILIES
from tests.oracles import tiny

LAYOUTS = ("hf", "meta", "torchtune", "same")


def save(folder: Path, model: Any, **config: Any) -> Path:
    """Save a model as its class does, and change its config; a value of None takes a field out."""
    model.save_pretrained(folder)
    changed = {k: v for k, v in (tiny.raw_config(folder) | config).items() if k not in config or v is not None}
    tiny.write_config(folder, changed)
    return folder


def add_head(folder: Path) -> None:
    """Store the head beside the embedding that it equals, as some trainers do."""
    tensors = load_file(folder / "model.safetensors")
    save_file(tensors | {tiny.HEAD: tensors[tiny.EMBEDDING].clone()}, folder / "model.safetensors", {"format": "pt"})


def back_to_hf(folder: Path, out: Path, layout: str) -> Path:
    there = tiny.export(folder, out / "there", layout)
    return tiny.export(there, out / "back") if layout != "same" else there


def codes(folder: Path) -> set[str]:
    return {f.code for f in tiny.plan_of(folder).findings if f.severity != "info"}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", ["llama", "mistral"])
def test_untied_head_under_a_tied_flag(tmp_path: Path, kind: str, layout: str) -> None:
    model = tiny.make_model(tiny.make_config(kind))
    folder = save(tmp_path / "saved", model, tie_word_embeddings=True)
    assert codes(folder) == {"tied-conflict"}
    back = back_to_hf(folder, tmp_path, layout)
    assert tiny.raw_config(back)["tie_word_embeddings"] is False
    assert tiny.differing(tiny.read(back), tiny.read(folder)) == []
    loaded = tiny.load(back)
    assert torch.equal(loaded.lm_head.weight, model.lm_head.weight)
    assert torch.equal(tiny.logits_of(loaded), tiny.logits_of(model))


def test_the_flag_would_have_lost_the_head(tmp_path: Path) -> None:
    """What the export protects from: version 4 drops the head silently; version 5 keeps it."""
    model = tiny.make_model(tiny.make_config())
    loaded = tiny.load(save(tmp_path / "saved", model, tie_word_embeddings=True))
    assert torch.equal(tiny.logits_of(loaded), tiny.logits_of(model)) is tiny.V5


@pytest.mark.parametrize("layout", LAYOUTS)
def test_file_with_the_head_only(tmp_path: Path, layout: str) -> None:
    """safetensors' own `save_model` keeps the head's name and drops the embedding's."""
    model = tiny.make_model(tiny.make_config(tied=True))
    folder = save(tmp_path / "saved", model)
    save_model(model, str(folder / "model.safetensors"), {"format": "pt"})
    assert tiny.HEAD in load_file(folder / "model.safetensors")
    assert tiny.EMBEDDING not in load_file(folder / "model.safetensors")
    assert codes(folder) == {"tied-renamed"}
    back = back_to_hf(folder, tmp_path, layout)
    assert tiny.EMBEDDING in tiny.read(back)
    assert tiny.HEAD not in tiny.read(back)
    assert torch.equal(tiny.logits_of(tiny.load(back)), tiny.logits_of(model))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_redundant_head(tmp_path: Path, layout: str) -> None:
    model = tiny.make_model(tiny.make_config(tied=True))
    folder = save(tmp_path / "saved", model)
    add_head(folder)
    assert codes(folder) == {"tied-redundant"}
    back = back_to_hf(folder, tmp_path, layout)
    assert tiny.HEAD not in tiny.read(back)
    assert tiny.raw_config(back)["tie_word_embeddings"] is True
    assert torch.equal(tiny.logits_of(tiny.load(back)), tiny.logits_of(model))


@pytest.mark.parametrize("flag", [False, None])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_equal_head_of_an_untied_model(tmp_path: Path, layout: str, flag: bool | None) -> None:
    """An untied model may start from equal matrices; both stay. Without a flag Llama's class default is untied."""
    model = tiny.make_model(tiny.make_config(tied=True))
    folder = save(tmp_path / "saved", model, tie_word_embeddings=flag)
    add_head(folder)
    assert codes(folder) == set()
    back = back_to_hf(folder, tmp_path, layout)
    assert tiny.HEAD in tiny.read(back)
    assert tiny.raw_config(back)["tie_word_embeddings"] is False
    loaded = tiny.load(back)
    assert loaded.lm_head.weight.data_ptr() != loaded.model.embed_tokens.weight.data_ptr()
    assert torch.equal(tiny.logits_of(loaded), tiny.logits_of(model))


def test_lost_head_is_not_made_up(tmp_path: Path) -> None:
    """Untied and without a head: refused, until the user says that the two are one."""
    model = tiny.make_model(tiny.make_config(tied=True))
    folder = save(tmp_path / "saved", model, tie_word_embeddings=False)
    assert tiny.plan_of(folder).status == "blocked"
    write(tiny.plan_of(folder, tie="copy"), tmp_path / "out", "hf")
    assert torch.equal(tiny.logits_of(tiny.load(tmp_path / "out")), tiny.logits_of(model))


MODEL_TYPES = [(family.name, model_type) for family in FAMILIES for model_type in family.model_types]
MODEL_TYPES = [pair for pair in MODEL_TYPES if pair[1] in transformers.CONFIG_MAPPING]  # not all that one part is


@pytest.mark.parametrize(("name", "model_type"), MODEL_TYPES)
def test_class_defaults(name: str, model_type: str) -> None:
    """What the tables assume of a config without the flag is what both versions assume."""
    config = transformers.AutoConfig.for_model(model_type)
    assert BY_NAME[name].tie_default is bool(getattr(config.get_text_config(), "tie_word_embeddings", False))


def test_backbone_without_prefix(tmp_path: Path) -> None:
    """`AutoModel` saves bare names; the causal model loads what we make of them."""
    model = tiny.make_model(tiny.make_config(tied=True))
    model.save_pretrained(tmp_path / "saved")
    model.model.save_pretrained(tmp_path / "bare")
    tiny.write_config(tmp_path / "bare", tiny.raw_config(tmp_path / "saved"))
    out = tiny.export(tmp_path / "bare", tmp_path / "out")
    assert tiny.differing(tiny.read(out), tiny.read(tmp_path / "saved")) == []
    assert torch.equal(tiny.logits_of(tiny.load(out)), tiny.logits_of(model))
