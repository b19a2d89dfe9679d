"""The rows of the diff: every stored tensor once, every missing one once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ckpt_gui import diff
from ckpt_gui.core.diff import STATES, Row
from ckpt_gui.core.diffing import diff_expected
from ckpt_gui.core.export import Target
from ckpt_gui.core.retarget import retarget
from tests.core import models

FREQS = np.zeros(4, np.float32)


def rows(tensors: dict[str, Any], target: str = "same", config: Any = ..., **more: Any) -> dict[str, Row]:
    policy = more.pop("policy", {})
    plan = models.plan(tensors, models.config() if config is ... else config, **policy)
    made = diff_expected(retarget(plan, Target(target, **more)))
    stored = [r for r in made.rows if r.ref is not None]
    assert len(stored) == len(plan.source.refs)
    assert {r.state for r in made.rows} <= set(STATES)
    assert sum(made.counts.values()) == len(made.rows)
    assert [r.ref for r in stored] == list(plan.source.refs)  # in file order, missing ones last
    assert all(r.ref is None for r in made.rows[len(stored) :])
    return {r.path: r for r in made.rows}


@pytest.mark.parametrize("layout", models.COLUMN)
@pytest.mark.parametrize("target", [*models.COLUMN, "same"])
def test_a_whole_model(layout: str, target: str) -> None:
    made = rows(models.state(layout), target)
    into = layout if target == "same" else target
    wanted = {name: hub for hub, name, _ in models.names(layout)}
    goal = {hub: name for hub, name, _ in models.names(into)}
    moves = (layout == "hf") != (into == "hf")
    for key, row in made.items():
        rotary = any(part in key for part in ("q_proj", "k_proj", "wq", "wk"))
        assert row.state == ("transform" if moves and rotary else "same" if key == goal[wanted[key]] else "renamed")
        assert row.expected == goal[wanted[key]]
        assert row.shape == row.expected_shape


@pytest.mark.parametrize("target", ["same", "hf"])
def test_states(target: str) -> None:
    tensors: dict[str, Any] = dict(models.state("hf", head="equal"))
    del tensors["model.layers.1.mlp.up_proj.weight"]
    tensors |= {
        "model.norm.weight": np.zeros(23, np.float32),
        "score.weight": FREQS,
        "model.rotary_emb.inv_freq": FREQS,
        "ticked": FREQS,
    }
    wrapped = {"model": {f"_orig_mod.{k}": v for k, v in tensors.items()}, "optimizer": {"w": {"exp_avg": FREQS}}}
    made = rows(wrapped, target, models.config(tie_word_embeddings=True),
                policy={"dropped": frozenset(["model._orig_mod.ticked"])})  # fmt: skip
    states = {
        "_orig_mod.model.norm.weight": "shape",
        "_orig_mod.score.weight": "extra",
        "_orig_mod.ticked": "extra",
        "_orig_mod.lm_head.weight": "tied",
        "_orig_mod.model.embed_tokens.weight": "renamed",
        "model.layers.1.mlp.up_proj.weight": "missing",
        "optimizer.w.exp_avg": "aside",
    }
    assert {key: made[key].state for key in states} == states
    assert made["_orig_mod.score.weight"].expected == ""
    assert all(made[k].note for k, s in states.items() if s != "same")
    lost = made["model.layers.1.mlp.up_proj.weight"]
    assert (lost.key, lost.shape, lost.expected_shape, lost.dtype) == ("", None, (40, 24), "fp32")


def test_summary() -> None:
    tensors = models.state("meta") | {"score.weight": FREQS}
    del tensors["norm.weight"]
    made = diff(models.plan(tensors, models.config()), "hf")
    assert made.summary() == "29 match · 1 missing · 1 extra"
    tensors["norm.weight"] = np.zeros(3, np.float32)
    assert (
        diff(models.plan(tensors, models.config()), "hf").summary() == "29 match · 0 missing · 1 extra · 1 wrong shape"
    )


def test_nothing_matches() -> None:
    """Zero matches are said, not passed over."""
    made = diff(models.keys_plan(["a.b", "c.d"]), "same")
    assert made.summary().startswith("0 match")
    assert made.counts == {"extra": 2}


def test_casts() -> None:
    made = rows(models.state("hf"), "hf", dtype="bf16")
    assert {row.state for row in made.values()} == {"dtype"}


def test_a_copied_head_is_one_row() -> None:
    made = rows(models.state("torchtune", head="absent"), "meta", models.config(tie_word_embeddings=True))
    assert "output.weight" not in made


def test_collisions_are_shown() -> None:
    tensors = models.state("hf") | {"_orig_mod.model.norm.weight": np.zeros(24, np.float32)}
    made = rows(tensors)
    assert made["_orig_mod.model.norm.weight"].state == "error"
    assert made["model.norm.weight"].state == "error"


def test_an_unknown_target() -> None:
    made = rows({"a.b": FREQS, "c.d": FREQS}, "hf", None)
    assert {r.state for r in made.values()} == {"extra"}


@pytest.mark.parametrize(("flag", "state"), [(True, "differs"), (False, "same")])
def test_a_head_that_should_be_the_embedding(flag: bool, state: str) -> None:
    tensors = models.state("hf")
    made = rows(tensors, "hf", models.config(tie_word_embeddings=flag))
    assert made["lm_head.weight"].state == state
    assert made["model.embed_tokens.weight"].state == "same"
