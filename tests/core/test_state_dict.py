"""In a training script: clean names, the same objects, nothing lost."""

from __future__ import annotations

import json
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest

from ckpt_gui import normalise_state_dict
from ckpt_gui.core.errors import CheckpointError
from tests.core import models

torch = pytest.importorskip("torch")
LAYOUTS = tuple(models.COLUMN)


def tensors(layout: str, front: str = "", *, head: str = "own", biases: bool = False) -> dict[str, Any]:
    made = {front + k: torch.from_numpy(v) for k, v in models.state(layout, head=head, biases=biases).items()}
    if head == "same":
        made[front + models.HEAD[layout]] = made[front + models.EMBEDDING[layout]]
    return made


def as_bytes(state: dict[str, Any]) -> dict[str, bytes]:
    return {key: value.detach().numpy().tobytes() for key, value in state.items()}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("front", ["", "_orig_mod.", "module._orig_mod.", "_forward_module.model."])
@pytest.mark.parametrize("head", ["own", "same", "equal", "absent"])
@pytest.mark.parametrize("config", [None, models.config(), models.config(tie_word_embeddings=True)])
def test_clean_names_and_the_same_objects(layout: str, front: str, head: str, config: Any) -> None:
    before = tensors(layout, front, head=head)
    after = normalise_state_dict(before, config=config)
    assert list(after) == [key.removeprefix(front) for key in before]
    assert all(a is b for a, b in zip(after.values(), before.values(), strict=True))


def test_nothing_else_goes() -> None:
    extra = {"rope.freqs": torch.zeros(4), "n_averaged": torch.tensor(3), "score.weight": torch.ones(2)}
    before = tensors("meta") | extra
    wrapped = {f"module.{k}" if k != "n_averaged" else k: v for k, v in before.items()}
    after = normalise_state_dict(wrapped)
    assert list(after) == list(before)
    assert all(after[k] is v for k, v in before.items())


def test_unknown_layouts_lose_their_wrappers() -> None:
    before = {"_orig_mod.encoder.0.weight": torch.ones(2), "_orig_mod.encoder._extra_state": torch.ones(1)}
    after = normalise_state_dict(before)
    assert list(after) == ["encoder.0.weight", "encoder._extra_state"]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("target", LAYOUTS)
@pytest.mark.parametrize("how", ["config", "params", "heads", "path", "object"])
def test_layouts(tmp_path: Path, layout: str, target: str, how: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(models.config(attention_bias=True)))

    class Config:
        def to_dict(self) -> dict[str, Any]:
            return models.config(attention_bias=True)

    options: dict[str, Any] = {
        "config": {"config": models.config(attention_bias=True)},
        "params": {"config": models.params()},
        "heads": {"heads": models.HEADS, "kv_heads": models.KV_HEADS},
        "path": {"config": path},
        "object": {"config": Config()},
    }[how]
    before = tensors(layout, "_orig_mod.", biases=True)
    after = normalise_state_dict(before, layout=target, **options)
    assert as_bytes(after) == models.as_bytes(models.state(target, biases=True))
    moved = [k for k in after if ("q_proj" in k or "k_proj" in k or "wq" in k or "wk" in k)]
    same = {id(v) for v in before.values()}
    changed = {k for k, v in after.items() if id(v) not in same}
    assert changed == (set(moved) if (layout == "hf") != (target == "hf") else set())


@pytest.mark.parametrize("head", ["same", "equal"])
def test_tied_tensors(head: str) -> None:
    before = tensors("hf", head=head)
    tied = models.config(tie_word_embeddings=True)
    meta = normalise_state_dict(before, layout="meta", config=tied)
    assert meta["tok_embeddings.weight"] is before["model.embed_tokens.weight"]
    assert meta["output.weight"] is before["lm_head.weight"]
    assert "output.weight" not in normalise_state_dict(before, layout="torchtune", config=tied)
    assert "output.weight" in normalise_state_dict(before, layout="torchtune", config=models.config())
    back = normalise_state_dict(tensors("torchtune", head="absent"), layout="meta", config=tied)
    assert back["output.weight"] is back["tok_embeddings.weight"]


def test_a_head_of_its_own_never_goes() -> None:
    for target in ("same", *LAYOUTS):
        config = models.config(tie_word_embeddings=True)
        after = normalise_state_dict(tensors("hf"), layout=target, config=config)
        assert models.HEAD["hf" if target == "same" else target] in after


@pytest.mark.parametrize("target", ["meta", "hf"])
def test_missing_heads(target: str) -> None:
    layout = "hf" if target == "meta" else "torchtune"
    with pytest.raises(CheckpointError) as caught:
        normalise_state_dict(tensors(layout), layout=target)
    assert caught.value.code == "heads-unknown"
    with pytest.raises(CheckpointError):
        normalise_state_dict(tensors(layout), layout=target, heads=5)


def test_collisions() -> None:
    before = tensors("hf") | {"_orig_mod.model.norm.weight": torch.zeros(models.HIDDEN)}
    with pytest.raises(CheckpointError) as caught:
        normalise_state_dict(before)
    assert caught.value.code == "key-collision"


@pytest.mark.parametrize("target", LAYOUTS)
def test_meta_tensors(target: str) -> None:
    before = {f"_orig_mod.{k}": torch.empty(v.shape, device="meta") for k, v in models.state("hf").items()}
    after = normalise_state_dict(before, layout=target, config=models.config())
    assert set(after) == set(models.state(target))
    assert all(v.is_meta for v in after.values())
    tied = {f"_orig_mod.{k}": torch.empty(v.shape, device="meta") for k, v in models.state("hf").items()}
    tied["_orig_mod.lm_head.weight"] = tied["_orig_mod.model.embed_tokens.weight"]
    after = normalise_state_dict(tied, layout="torchtune", config=models.config(tie_word_embeddings=True))
    assert "output.weight" not in after
    assert "output.weight" in normalise_state_dict(
        before, layout="torchtune", config=models.config(tie_word_embeddings=True)
    )


class Packed(torch.Tensor):
    """A subclass that keeps its elements in a way of its own."""


@pytest.mark.parametrize("key", ["layers.0.attention.wq.weight", "norm.weight", "output.weight"])
def test_subclasses(key: str) -> None:
    before = tensors("meta")
    before[key] = before[key].as_subclass(Packed)
    assert normalise_state_dict({f"_orig_mod.{k}": v for k, v in before.items()})[key] is before[key]
    if "wq" in key:
        with pytest.raises(CheckpointError) as caught:
            normalise_state_dict(before, layout="hf", config=models.config())
        assert "Packed" in caught.value.message
        assert key in caught.value.message
    else:
        after = normalise_state_dict(before, layout="hf", config=models.config())
        assert any(v is before[key] for v in after.values())


def test_parameters_and_gradients() -> None:
    before = {k: torch.nn.Parameter(v) for k, v in tensors("meta").items()}
    after = normalise_state_dict(before, layout="hf", config=models.config())
    assert after["model.norm.weight"] is before["norm.weight"]
    q = after["model.layers.0.self_attn.q_proj.weight"]
    assert q.is_contiguous()
    assert not q.requires_grad
    assert as_bytes(after) == models.as_bytes(models.state("hf"))


def test_sixteen_bits() -> None:
    before = {k: v.to(torch.bfloat16) for k, v in tensors("hf", head="equal").items()}
    after = normalise_state_dict(before, layout="torchtune", config=models.config(tie_word_embeddings=True))
    assert "output.weight" not in after
    assert {v.dtype for v in after.values()} == {torch.bfloat16}


def test_order_and_nesting() -> None:
    nested = {"model": OrderedDict(tensors("meta", "_orig_mod.")), "optimizer": {"state": {}}, "step": 3}
    after = normalise_state_dict(nested)
    assert list(after) == list(models.state("meta"))
    two = {"model": tensors("meta"), "ema": tensors("meta")}
    with pytest.raises(CheckpointError) as caught:
        normalise_state_dict(two)
    assert caught.value.code == "several-sections"


def test_nothing() -> None:
    assert normalise_state_dict({}) == {}


@pytest.mark.parametrize("layout", ["gguf", "HF"])
def test_words(layout: str) -> None:
    with pytest.raises(CheckpointError):
        normalise_state_dict(tensors("hf"), layout=layout)


def test_a_part_of_a_model_is_a_part_in_any_layout() -> None:
    """As one stage of a pipeline has it."""
    before = {k: v for k, v in tensors("meta").items() if "layers.1." in k or k == "norm.weight"}
    after = normalise_state_dict(before, layout="hf", config=models.config())
    wanted = {k: v for k, v in models.state("hf").items() if "layers.1." in k or k == "model.norm.weight"}
    assert as_bytes(after) == models.as_bytes(wanted)


@pytest.mark.parametrize("front", ["", "_orig_mod."])
def test_only_wrappers_go(front: str) -> None:
    """Neither the prefix that a bare backbone lacks nor the name of a tied head is touched."""
    bare = {front + k.removeprefix("model."): v for k, v in tensors("hf", head="absent").items()}
    assert list(normalise_state_dict(bare)) == [k.removeprefix(front) for k in bare]
    only = {front + k: v for k, v in tensors("hf", head="own").items() if "embed" not in k}
    config = models.config(tie_word_embeddings=True)
    assert list(normalise_state_dict(only, config=config)) == [k.removeprefix(front) for k in only]
