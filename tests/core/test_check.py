"""Complete? Names, shapes, types; said loudly, in the file's own names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ckpt_gui.core.errors import SEVERITIES, worst_first
from ckpt_gui.core.export import Target
from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.normalise import understand
from ckpt_gui.core.plan import Plan
from ckpt_gui.core.retarget import retarget
from tests.core import models


def without(layout: str, *parts: str, **changes: Any) -> Plan:
    gone = [k for k in models.state(layout) for p in parts if p == k or (p[-1] == "." and p in k)]
    tensors = {k: v for k, v in models.state(layout).items() if k not in gone}
    return models.plan(tensors, models.config(**changes))


@pytest.mark.parametrize("layout", models.COLUMN)
@pytest.mark.parametrize("place", range(0, 30, 7))
def test_a_missing_tensor_blocks(layout: str, place: int) -> None:
    key = list(models.state(layout))[place]
    plan = without(layout, key)
    assert plan.status == "blocked"
    found = models.finding(plan, "missing-tensor")
    assert found.keys == (key,)
    assert found.message == f"1 of 30 expected tensors is missing: `{key}`."
    assert [f.code for f in retarget(plan, Target("same")).blocked] == ["missing-tensor"]


def test_a_missing_layer_is_named() -> None:
    found = models.finding(without("meta", "layers.1."), "missing-tensor")
    assert "(all of layer 1)" in found.message
    assert len(found.keys) == 9


@pytest.mark.parametrize("flag", [True, False])
def test_a_lost_head_can_be_a_copy(flag: bool) -> None:
    plan = without("hf", "lm_head.weight", tie_word_embeddings=flag)
    assert plan.status == ("clean" if flag else "blocked")
    if not flag:
        assert "--tie copy" in (models.finding(plan, "missing-tensor").fix or "")


@pytest.mark.parametrize("layout", models.COLUMN)
def test_biases_of_a_part_that_has_them(layout: str) -> None:
    assert models.model(layout, biases=True).status == "clean"
    tensors = models.state(layout, biases=True)
    lost = next(k for k in tensors if k.endswith("bias"))
    del tensors[lost]
    assert models.finding(models.plan(tensors, models.config(attention_bias=True)), "missing-tensor").keys == (lost,)
    stated = models.plan(models.state(layout), models.config(attention_bias=True))
    assert len(models.finding(stated, "missing-tensor").keys) == 4 * models.LAYERS


@pytest.mark.parametrize("flag", [False, ...])
def test_biases_that_the_config_does_not_have_reach_the_export(flag: Any) -> None:
    """transformers would build the model without them, in silence."""
    plan = models.plan(models.state("meta", biases=True), models.config(attention_bias=flag))
    assert '"attention_bias": true' in retarget(plan, Target("hf")).texts["config.json"]


@pytest.mark.parametrize(
    ("key", "shape"),
    [("model.norm.weight", (23,)), ("model.norm.weight", ()), ("model.norm.weight", (24, 1)),
     ("model.layers.2.self_attn.k_proj.weight", (32, 24)), ("model.layers.0.mlp.down_proj.weight", (40, 24)),
     ("model.layers.0.self_attn.q_proj.weight", (0, 24))],
)  # fmt: skip
def test_shapes(key: str, shape: tuple[int, ...]) -> None:
    tensors = models.state("hf") | {key: np.zeros(shape, np.float32)}
    plan = models.plan(tensors, models.config())
    found = models.finding(plan, "shape-mismatch")
    assert found.keys == (key,)
    assert f"`{key}` has the shape" in found.message
    assert plan.status == "blocked"


def test_several_types() -> None:
    tensors: dict[str, Any] = dict(models.state("hf"))
    tensors["model.norm.weight"] = tensors["model.norm.weight"].astype(np.float16)
    found = models.finding(models.plan(tensors, models.config()), "dtype-mixed")
    assert found.message == "The tensors have several types: 29 fp32, 1 fp16."
    assert found.keys == ("model.norm.weight",)


@pytest.mark.parametrize("stated", ["bfloat16", "torch.float16"])
@pytest.mark.parametrize("field", ["torch_dtype", "dtype"])
def test_the_type_in_the_config(stated: str, field: str) -> None:
    plan = models.plan(models.state("hf"), models.config(**({"torch_dtype": ..., field: stated})))
    found = models.finding(plan, "config-mismatch")
    assert "the tensors are fp32" in found.message
    assert models.plan(models.state("hf"), models.config(torch_dtype="float32")).status == "clean"


def test_no_config() -> None:
    plan = models.plan(models.state("hf"))
    assert plan.status == "clean"
    assert "config-missing" in models.codes(plan)


def test_worst_first() -> None:
    tensors = models.state("hf", head="equal") | {"x": np.zeros(1, np.float32)}
    del tensors["model.norm.weight"]
    order = [f.severity for f in worst_first(models.plan(tensors, models.config()).findings)]
    assert order == sorted(order, key=SEVERITIES.index)
    assert order[0] == "error"


@pytest.mark.parametrize("layout", models.COLUMN)
def test_findings_name_no_control_characters(layout: str) -> None:
    tensors = models.state(layout) | {"\x1b[31m\u202e.weight": np.zeros(1, np.float32)}
    for found in models.plan(tensors, models.config()).findings:
        assert "\x1b" not in found.message
        assert "\u202e" not in found.message


@pytest.mark.parametrize(
    "ends",
    [
        ("weight", "weight_scale_inv"),
        ("weight", "weight_scale", "input_scale"),
        ("qweight", "qzeros", "scales", "g_idx"),
    ],
)
def test_codes_and_scales_are_told_once(tmp_path: Path, ends: tuple[str, ...]) -> None:
    """What a quantised model stores in place of a weight is neither lost nor unexpected."""
    tensors = models.state("hf")
    weight = tensors.pop("model.layers.0.mlp.up_proj.weight")
    tensors |= {f"model.layers.0.mlp.up_proj.{end}": weight + i for i, end in enumerate(ends)}
    plan = understand(open_checkpoint(models.save(tmp_path, tensors, config=models.config())))
    assert models.codes(plan) == ["quantised"]
    tensors["extra.weight"] = weight
    plan = understand(open_checkpoint(models.save(tmp_path / "more", tensors, config=models.config())))
    assert models.finding(plan, "unexpected-tensor").keys == ("extra.weight",)
