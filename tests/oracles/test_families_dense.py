"""Dense families: what transformers saves is clean and goes to each layout and back; other converters agree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.oracle
pytest.importorskip("transformers")


import torch

from ckpt_gui.core.families.registry import BY_NAME
from tests.oracles import dense, tiny

# Tensors of one layer, and beside the layers, of a tied model (FORMATS of the README).
COUNTS = {
    "llama-tied": (9, 2), "mistral": (9, 3), "qwen2-tied": (12, 2), "qwen3-tied": (11, 2), "gemma": (9, 2),
    "gemma2": (11, 2), "gemma3": (13, 2), "smollm3": (9, 2), "olmo2-tied": (11, 2), "cohere": (8, 2),
    "cohere-qk-norm": (10, 2), "starcoder2": (16, 3),
}  # fmt: skip


def layouts_of(kind: str) -> list[str]:
    """Return the layouts of a kind's family beside Hugging Face's."""
    family = next(f for f in BY_NAME.values() if dense.KINDS[kind][0] in f.model_types)
    told = ("hf", "torchtune-0.6.1")  # the second has the first's names: see test_converters_dense
    return [layout.name for layout in family.layouts if layout.name not in told]


@pytest.fixture(params=dense.KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """The name of a tiny model."""
    return str(request.param)


@pytest.fixture
def saved(kind: str, tmp_path: Path) -> Path:
    """A folder written by `save_pretrained`."""
    dense.make(kind).save_pretrained(tmp_path / "saved")
    return tmp_path / "saved"


def test_what_transformers_saves_has_no_findings(kind: str, saved: Path) -> None:
    plan = tiny.plan_of(saved)
    assert plan.findings == ()
    assert plan.family is not None
    assert dense.KINDS[kind][0] in plan.family.model_types
    if kind in COUNTS:
        per_layer, beside = COUNTS[kind]
        assert len(plan.entries) == per_layer * plan.dims["layers"] + beside


def test_hf_export_is_the_same_model(saved: Path, tmp_path: Path) -> None:
    out = tiny.export(saved, tmp_path / "out")
    tiny.assert_clean(out)
    assert tiny.differing(tiny.read(out), tiny.read(saved)) == []
    assert tiny.config_of(out) == tiny.config_of(saved)
    assert tiny.logits_equal(out, saved)


WAYS = [(kind, layout) for kind in dense.KINDS for layout in layouts_of(kind)]
# What a layout has no name for: biases, and a head where the program always ties.
NAMELESS = {(kind, layout) for kind, layout in WAYS if dense.KINDS[kind][1].get("attention_bias")} & {
    (kind, layout) for kind, layout in WAYS if layout in ("gpt-fast", "torchtitan", "torchtitan-old", "google")
} | {(kind, layout) for kind, layout in WAYS if layout == "google" and kind.endswith("untied")}


@pytest.mark.parametrize(("kind", "layout"), WAYS)
def test_there_and_back(kind: str, layout: str, tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    dense.make(kind).save_pretrained(saved)
    if (kind, layout) in NAMELESS:
        export = tiny.plan_of(saved)
        with pytest.raises(Exception, match="no name for"):
            tiny.write(export, tmp_path / "there", layout)
        return
    there = tiny.export(saved, tmp_path / "there", layout)
    tiny.assert_clean(there)
    read = tiny.plan_of(there)
    assert read.layout is not None
    assert read.layout.name == layout
    back = tiny.export(there, tmp_path / "back")
    tiny.assert_clean(back)
    assert tiny.differing(tiny.read(back), tiny.read(saved)) == []
    assert tiny.config_of(back) == tiny.config_of(saved)
    assert tiny.logits_equal(back, saved)
    again = tiny.export(back, tmp_path / "again", layout)
    assert tiny.differing(tiny.read(again), tiny.read(there)) == []


# How each version of transformers spells what turns the heads; version 4's `rope_scaling` is Gemma 3's for its layers
# with full attention only.
LINEAR = {"rope_type": "linear", "factor": 8.0}
ROPE_FIELDS = ("rope_theta", "rope_scaling", "rope_parameters", "rope_local_base_freq", "dtype", "torch_dtype")
SPELLED = ("llama", "qwen2", "qwen3", "gemma", "gemma2", "gemma3", "smollm3", "olmo2", "cohere", "starcoder2")


def spelled(config: dict[str, Any], version: int, scaling: dict[str, Any] | None) -> dict[str, Any]:
    """Return a config as that version writes it."""
    kept = {name: value for name, value in config.items() if name not in ROPE_FIELDS}
    local = config["model_type"] == "gemma3_text"
    if version == 4:
        if config["model_type"] == "olmo2" and scaling:  # its class takes nothing but these two
            scaling = {"type": "linear", "factor": 8.0}
        old = kept | {"rope_theta": 5432.0, "torch_dtype": "float32"}
        old |= {"rope_scaling": scaling} if scaling or config["model_type"] not in ("gemma", "gemma2") else {}
        return old | ({"rope_local_base_freq": 77.0} if local else {})
    full = {"rope_type": "default", **(scaling or {}), "rope_theta": 5432.0}
    near = {"rope_type": "default", "rope_theta": 77.0}
    rope = {"full_attention": full, "sliding_attention": near} if local else full
    return kept | {"rope_parameters": rope, "dtype": "float32"}


@pytest.mark.parametrize("kind", SPELLED)
@pytest.mark.parametrize("scaling", [None, LINEAR], ids=["plain", "linear"])
def test_both_spellings_give_one_model(kind: str, scaling: dict[str, Any] | None, tmp_path: Path) -> None:
    """Whichever version wrote the config, what we write is read alike by the one that runs here."""
    outs = []
    for version in (4, 5):
        saved = tmp_path / f"saved{version}"
        dense.make(kind).save_pretrained(saved)
        tiny.write_config(saved, spelled(tiny.raw_config(saved), version, scaling))
        tiny.assert_clean(saved)
        outs.append(tiny.export(saved, tmp_path / f"out{version}"))
        through = [x for x in layouts_of(kind) if x != "meta"][:1]
        outs += [
            tiny.export(tiny.export(saved, tmp_path / f"t{version}", x), tmp_path / f"b{version}") for x in through
        ]
    own = tmp_path / ("saved5" if tiny.V5 else "saved4")  # the spelling that is this version's own
    wanted = tiny.logits_of(tiny.load(own))
    for out in outs:
        assert torch.equal(tiny.logits_of(tiny.load(out)), wanted)
    fields = [tiny.config_of(out) for out in outs]
    told = [n for n in ROPE_FIELDS[:2] + ROPE_FIELDS[3:4] if n in fields[0]] if not tiny.V5 else ["rope_parameters"]
    assert all({n: f.get(n) for n in told} == {n: fields[0][n] for n in told} for f in fields)
