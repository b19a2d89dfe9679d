"""Sizes: from the config where it agrees with the tensors, from shapes where they tell, heads never guessed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.export import Target
from ckpt_gui.core.plan import Plan, account
from ckpt_gui.core.retarget import retarget
from tests.core import models

TRUE = {"hidden": 24, "layers": 3, "heads": 4, "kv_heads": 2, "head_dim": 8, "ffn": 40, "vocab": 50}
FROM_SHAPES = {"hidden": 24, "layers": 3, "ffn": 40, "vocab": 50}


def plan(config: Any = None, params: Any = None, layout: str = "meta", **policy: Any) -> Plan:
    made = models.plan(models.state(layout), config, params, **policy)
    account(made)
    return made


def blocked(made: Plan, layout: str) -> list[str]:
    return [f.code for f in retarget(made, Target(layout)).blocked]


@pytest.mark.parametrize("layout", models.COLUMN)
def test_from_config(layout: str) -> None:
    made = plan(models.config(), layout=layout)
    assert dict(made.dims) == TRUE
    assert made.dims_from["heads"] == "config.json"
    assert made.dims_from["hidden"] == "shapes"
    assert "config-mismatch" not in models.codes(made)


@pytest.mark.parametrize("layout", models.COLUMN)
def test_without_a_config_heads_are_not_known(layout: str) -> None:
    made = plan(layout=layout)
    assert dict(made.dims) == FROM_SHAPES
    assert ("heads-unknown" in blocked(made, "hf")) == (layout != "hf")
    assert ("heads-unknown" in blocked(made, "meta")) == (layout == "hf")
    assert ("heads-unknown" in blocked(made, "torchtune")) == (layout == "hf")
    assert blocked(made, "same") == []


def test_heads_from_the_user() -> None:
    made = plan(heads=4)
    assert dict(made.dims) == TRUE  # kv_heads follow from the rows
    assert made.dims_from["heads"] == "the user"
    assert dict(plan(heads=4, kv_heads=2).dims) == TRUE
    assert blocked(made, "hf") == []


@pytest.mark.parametrize(
    "heads",
    [
        {"heads": 3},
        {"heads": 64},
        {"heads": 4, "kv_heads": 4},
        {"heads": 4, "kv_heads": 3},
        {"heads": -4},
        {"heads": 32},
    ],
)
def test_heads_from_the_user_that_can_not_be(heads: dict[str, int]) -> None:
    made = plan(models.config(), **heads)
    assert blocked(made, "hf") == ["heads-unknown"]
    message = next(f.message for f in retarget(made, Target("hf")).blocked)
    assert "head" in message


@pytest.mark.parametrize(
    ("field", "value", "name"),
    [
        ("hidden_size", 32, "hidden"),
        ("intermediate_size", 41, "ffn"),
        ("vocab_size", 64, "vocab"),
        ("num_hidden_layers", 2, "layers"),
        ("num_key_value_heads", 4, "kv_heads"),
    ],
)
@pytest.mark.parametrize("layout", models.COLUMN)
def test_the_tensors_are_believed(field: str, value: int, name: str, layout: str) -> None:
    made = plan(models.config(**{field: value}), layout=layout)
    found = models.finding(made, "config-mismatch")
    assert found.severity == "warning"
    assert f"{name} {value}, tensors {TRUE[name]}" in found.message
    assert dict(made.dims) == TRUE
    assert made.status == "fixable"


def test_more_layers_in_the_config_are_missing() -> None:
    made = plan(models.config(num_hidden_layers=4))
    found = models.finding(made, "missing-tensor")
    assert len(found.keys) == 9
    assert (
        found.message
        == "9 of 39 expected tensors are missing: `layers.3.attention_norm.weight` and 8 more (all of layer 3)."
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"num_attention_heads": 8},  # 8 heads of 8 are 64 rows
        {"num_attention_heads": 8, "num_key_value_heads": 4},
        {"num_attention_heads": 2},
        {"head_dim": 4},
        {"head_dim": 16},
        {"num_attention_heads": 5},
        {"head_dim": ...},  # then 24 / 4 = 6, and transformers would expect 24 rows
    ],
)
def test_head_counts_that_contradict_the_rows_are_not_used(changes: dict[str, Any]) -> None:
    made = plan(models.config(**changes))
    assert "heads" not in made.dims
    assert "query rows" in models.finding(made, "config-mismatch").message
    assert blocked(made, "hf") == ["heads-unknown"]
    assert blocked(made, "torchtune") in ([], ["heads-unknown"])
    fixed = plan(models.config(**changes), heads=4, kv_heads=2)
    assert dict(fixed.dims) == TRUE
    assert blocked(fixed, "hf") == []


def test_an_hf_export_does_not_go_without_its_config_in_silence() -> None:
    made = plan(models.config(num_attention_heads=5), layout="hf")
    export = retarget(made, Target("hf"))
    assert [f.code for f in export.blocked] == ["heads-unknown"]
    assert "config.json" in export.blocked[0].message


HOSTILE = [10**400, 2**63, -1, 0, -(10**30), True, "32", 32.0, None, [32], {"a": 1}, float("nan")]


@pytest.mark.parametrize("value", HOSTILE, ids=lambda v: f"{type(v).__name__}-{str(v)[:12]}")
@pytest.mark.parametrize("field", list(models.config()))
def test_hostile_configs(field: str, value: Any) -> None:
    try:
        made = plan(models.config(**{field: value}))
        for layout in ("hf", "meta", "torchtune", "same"):
            retarget(made, Target(layout))
    except CheckpointError:
        pytest.fail("a plan says what is wrong by findings")
    assert all(len(f.message) < 700 for f in made.findings)


@pytest.mark.parametrize("value", HOSTILE, ids=lambda v: f"{type(v).__name__}-{str(v)[:12]}")
@pytest.mark.parametrize(
    "field", [*models.params(), "ffn_dim_multiplier", "use_scaled_rope", "rope_scaling_factor", "model"]
)
def test_hostile_params(field: str, value: Any) -> None:
    made = plan(None, models.params(**{"hidden_dim": ..., field: value}))
    for layout in ("hf", "meta", "torchtune", "same"):
        retarget(made, Target(layout))


def test_a_layer_number_out_of_this_world() -> None:
    tensors = models.state("meta") | {"layers.999999999.attention_norm.weight": np.zeros(24, np.float32)}
    made = models.plan(tensors, models.config())
    account(made)
    assert [e.key for e in made.unmapped] == ["layers.999999999.attention_norm.weight"]
    assert made.dims["layers"] == 3
    far = models.plan(models.state("meta") | {"layers.9999.attention_norm.weight": np.zeros(24, np.float32)})
    assert far.status == "blocked"
    assert len(far.missing) == (9999 - 3) * 9 + 8


def test_rows_of_the_vocabulary_come_from_the_tensors() -> None:
    tensors = models.state("hf")
    tensors["lm_head.weight"] = np.zeros((60, 24), np.float32)
    made = models.plan(tensors, models.config())
    assert made.dims["vocab"] == 50
    assert "lm_head.weight" in models.finding(made, "shape-mismatch").keys
    other = models.plan(tensors, models.config(vocab_size=60))
    assert other.dims["vocab"] == 60
    assert models.finding(other, "shape-mismatch").keys == ("model.embed_tokens.weight",)


@pytest.mark.parametrize("order", [1, -1])
def test_a_draw_between_shapes_does_not_hang_on_file_order(order: int) -> None:
    tensors = models.state("hf", layers=2)
    tensors["model.layers.1.input_layernorm.weight"] = np.zeros(25, np.float32)
    for n, ffn in enumerate((40, 48)):
        for part in ("gate_proj", "up_proj"):
            tensors[f"model.layers.{n}.mlp.{part}.weight"] = np.zeros((ffn, 24), np.float32)
        tensors[f"model.layers.{n}.mlp.down_proj.weight"] = np.zeros((24, ffn), np.float32)
    made = models.plan(dict(list(tensors.items())[::order]))
    assert made.dims["ffn"] == 40
