"""Values in another order are told for what they are, and nothing else is taken for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ckpt_gui.core.against import Against
from ckpt_gui.core.compare import compare, side_of_plan
from ckpt_gui.core.compare.findings import differences
from ckpt_gui.core.plan import Plan
from tests.core import models, test_families_fused
from tests.core.test_families_dense import BY_NAME, config, tensors

Change = Callable[[np.ndarray], np.ndarray]
HEADS, KV = models.HEADS, models.KV_HEADS


def from_pairs(rows: np.ndarray, heads: int) -> np.ndarray:
    """The other way round from `models.to_pairs`."""
    size = len(rows) // heads
    order = [h * size + i for h in range(heads) for i in (*range(0, size, 2), *range(1, size, 2))]
    return rows[order]


def beside(good: Plan, change: dict[str, Change], state: models.State, made: Any) -> Against:
    bad = dict(state)
    for key in state:
        for part, function in change.items():
            if part in key:
                bad[key] = function(state[key])
    ours = side_of_plan(models.plan(bad, made), "bad")
    compared = compare(ours, side_of_plan(good, "good"), values=True)
    return Against(compared, differences(compared))


def dense(name: str, change: dict[str, Change]) -> Against:
    family = BY_NAME[name]
    state, made = tensors(family, optional=False), config(family, **{s.when: False for s in family.slots if s.when})
    return beside(models.plan(state, made), change, state, made)


def fused(name: str, change: dict[str, Change]) -> Against:
    state, made = test_families_fused.hub_state(name), test_families_fused.config(name)
    return beside(models.plan(state, made), change, state, made)


def orders(found: Against) -> dict[str, int]:
    counts: dict[str, int] = {}
    for row in found.rows:
        if row.state == "permuted":
            counts[row.order] = counts.get(row.order, 0) + 1
    return counts


@pytest.mark.parametrize("name", ["llama", "qwen2", "gemma3", "olmo2", "starcoder2"])
@pytest.mark.parametrize("turn", [models.to_pairs, from_pairs])
def test_rows_of_q_and_k_in_any_family(name: str, turn: Any) -> None:
    found = dense(name, {"q_proj.": lambda t: turn(t, HEADS), "k_proj.": lambda t: turn(t, KV)})
    assert set(orders(found)) == {"rotary"}
    assert orders(found)["rotary"] == sum("q_proj." in r.key or "k_proj." in r.key for r in found.rows)
    assert [f.code for f in found.findings] == ["rope-permuted"]


def test_other_rows_are_not_tried() -> None:
    found = dense("llama", {"v_proj": lambda t: models.to_pairs(t, KV), "up_proj": lambda t: t[::-1].copy()})
    assert orders(found) == {}
    assert found.findings == ()
    assert found.counts["differs"] == 6


@pytest.mark.parametrize(
    ("name", "part", "change", "order"),
    [
        ("phi3", "gate_up_proj", lambda t: np.concatenate(np.split(t, 2)[::-1]), "gate-up"),
        ("phi3", "gate_up_proj", lambda t: t.reshape(2, -1, t.shape[1]).swapaxes(0, 1).reshape(t.shape), "gate-up"),
        ("phi3", "gate_up_proj", lambda t: t.reshape(-1, 2, t.shape[1]).swapaxes(0, 1).reshape(t.shape), "gate-up"),
        ("gpt-neox", "query_key_value.weight", lambda t: t.reshape(6, 3, -1).swapaxes(0, 1).reshape(t.shape), "qkv"),
        ("gpt-neox", "query_key_value.bias", lambda t: t.reshape(3, 6, -1).swapaxes(0, 1).reshape(t.shape), "qkv"),
        ("gpt-neox", "attention.dense.weight", np.transpose, "transposed"),
        ("gpt2", "attn.c_proj.weight", np.transpose, "transposed"),
    ],
)
def test_fused_and_square(name: str, part: str, change: Change, order: str) -> None:
    found = fused(name, {part: lambda t: np.ascontiguousarray(change(t))})
    assert orders(found) == {order: 3}
    (finding,) = found.findings
    assert (finding.code, finding.severity, len(finding.keys)) == ("values-reordered", "warning", 3)
    assert "another order (" in finding.message


def test_a_corner_that_agrees_proves_nothing() -> None:
    def change(t: np.ndarray) -> np.ndarray:
        made = np.ascontiguousarray(t.T)
        made[-1, -1] += 1
        return made

    found = fused("gpt2", {"attn.c_proj.weight": change})
    assert orders(found) == {}
    assert found.counts["differs"] == 3
