"""What the programs of a layout can not build is said before it is written for them."""

from __future__ import annotations

import numpy as np
import pytest

from ckpt_gui.core.export import Target
from ckpt_gui.core.plan import Plan
from ckpt_gui.core.retarget import retarget
from tests.core import models


def warnings(plan: Plan, layout: str) -> list[str]:
    export = retarget(plan, Target(layout))
    assert not export.blocked
    return [f.message for f in export.findings if f.code == "config-mismatch"]


def even() -> models.State:
    """The usual model with a hidden size of heads x head_dim."""
    size = models.HEADS * models.HEAD_DIM
    state = models.state("hf")
    made = {}
    for key, array in state.items():
        shape = tuple(size if s == models.HIDDEN else s for s in array.shape)
        made[key] = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    return made


@pytest.mark.parametrize(("layout", "who"), [("meta", "Meta's own programs"), ("torchtune", "torchtune's builders")])
def test_heads_of_another_size(layout: str, who: str) -> None:
    plan = models.plan(models.state("hf"), models.config())
    [text] = warnings(plan, layout)
    assert text.startswith(f"{who} can not build this model")
    assert "4 heads of 8 are not 24" in text
    fits = models.plan(even(), models.config(hidden_size=32))
    assert warnings(fits, layout) == []
    assert warnings(models.plan(models.state(layout), models.config()), "same") == []
    assert warnings(plan, "hf") == []


@pytest.mark.parametrize("layout", ["meta", "torchtune"])
def test_biases(layout: str) -> None:
    plan = models.plan(models.state("hf", biases=True), models.config(attention_bias=True))
    assert [t for t in warnings(plan, layout) if "no place for its 12 biases" in t]


@pytest.mark.parametrize(("heads", "told"), [(5, True), (4, False)])
def test_transformers_5_wants_heads_that_divide(heads: int, told: bool) -> None:
    state = models.state("hf")
    for n in range(models.LAYERS):
        part = f"model.layers.{n}.self_attn."
        state[part + "q_proj.weight"] = np.ones((heads * 8, models.HIDDEN), np.float32)
        state[part + "o_proj.weight"] = np.ones((models.HIDDEN, heads * 8), np.float32)
        for name in "kv":
            state[f"{part}{name}_proj.weight"] = np.ones((heads * 8, models.HIDDEN), np.float32)
    config = models.config(num_attention_heads=heads, num_key_value_heads=heads)
    plan = models.plan(state, config)
    assert models.codes(plan) == (["config-mismatch"] if told else [])
    found = [text for text in warnings(plan, "hf") if "transformers 5 refuses" in text]
    assert len(found) == told
    mistral = models.plan(state, models.mistral_config(num_attention_heads=heads, num_key_value_heads=heads))
    assert models.codes(mistral) == []
