"""Hub names with their ops; buffers out; what fits nothing is kept."""

from __future__ import annotations

import numpy as np
import pytest

from ckpt_gui.core.ops import RopePermute
from ckpt_gui.core.plan import account
from tests.core import models

FREQS = np.zeros(models.HEAD_DIM // 2, np.float32)


@pytest.mark.parametrize("layout", models.COLUMN)
def test_every_tensor_gets_its_own_hub_name(layout: str) -> None:
    made = models.model(layout, biases=True)
    assert made.status == "clean"
    assert {e.ref.key: e.key for e in made.entries} == {name: hub for hub, name, _ in models.names(layout, biases=True)}
    ops = {e.key: e.ops for e in made.entries if e.ops}
    rotary = {f"model.layers.{n}.self_attn.{p}" for n in range(models.LAYERS) for p in
              ("q_proj.weight", "k_proj.weight", "q_proj.bias", "k_proj.bias")}  # fmt: skip
    assert set(ops) == (set() if layout == "hf" else rotary)
    for key, (op,) in ops.items():
        assert op == RopePermute("heads" if "q_proj" in key else "kv_heads", "halves")


@pytest.mark.parametrize(
    ("layout", "key", "severity"),
    [
        ("meta", "rope.freqs", "info"),
        ("meta", "freqs_cis", "warning"),
        ("hf", "model.layers.0.self_attn.rotary_emb.inv_freq", "warning"),
        ("hf", "model.rotary_emb.inv_freq", "warning"),
        ("torchtune", "layers.2.attn.pos_embeddings.theta", "warning"),
        ("hf", "model.layers.1._extra_state", "warning"),
        ("torchtune", "n_averaged", "warning"),
    ],
)
def test_buffers(layout: str, key: str, severity: str) -> None:
    tensors = models.state(layout) | {key: FREQS}
    made = models.plan(tensors, models.config())
    account(made)
    assert [(d.key, d.kind) for d in made.dropped] == [(key, "buffer")]
    found = models.finding(made, "computed-buffer")
    assert found.severity == severity
    assert found.keys == (key,)
    kept = models.plan(tensors, models.config(), skip=frozenset(["buffers"]))
    assert [e.key for e in kept.unmapped] == [key]
    assert kept.dropped == ()


def test_one_of_several_buffers_is_kept() -> None:
    first, second = (f"model.layers.{n}.self_attn.rotary_emb.inv_freq" for n in (0, 1))
    tensors = models.state("hf") | {first: FREQS, second: FREQS + 1}
    made = models.plan(tensors, models.config(), kept=frozenset([second]))
    account(made)
    assert [d.key for d in made.dropped] == [first]
    assert [e.key for e in made.unmapped] == [second]


def test_buffers_of_another_layout_are_not_left_out() -> None:
    made = models.plan(models.state("hf") | {"rope.freqs": FREQS}, models.config())
    assert [e.key for e in made.unmapped] == ["rope.freqs"]


def test_many_buffers_are_one_sentence() -> None:
    extra = {f"model.layers.{n}.self_attn.rotary_emb.inv_freq": FREQS for n in range(models.LAYERS)}
    extra |= {f"model.layers.{n}._extra_state": FREQS for n in range(models.LAYERS)}
    made = models.plan(models.state("hf") | extra, models.config())
    first, second = [f.message for f in made.findings if f.code == "computed-buffer"]
    assert first.startswith("3 tensors such as `model.layers.0.self_attn.rotary_emb.inv_freq` hold the rotary")
    assert second.startswith("3 tensors such as `model.layers.0._extra_state` keep private state")


def test_two_names_of_one_tensor_block() -> None:
    """A backbone saved twice, once with `model.` and once without."""
    tensors = {k.removeprefix("model."): v for k, v in models.state("hf").items()}
    tensors["model.norm.weight"] = tensors["norm.weight"] + 1
    made = models.plan(tensors, models.config())
    account(made)
    assert made.status == "blocked"
    found = models.finding(made, "key-collision")
    assert set(found.keys) == {"norm.weight", "model.norm.weight"}
    assert "missing-tensor" not in models.codes(made)
    settled = models.plan(tensors, models.config(), dropped=frozenset(["model.norm.weight"]))
    assert settled.status == "fixable"


def test_unexpected_tensors_are_kept() -> None:
    made = models.plan(models.state("hf") | {"score.weight": FREQS, "a.b": FREQS}, models.config())
    assert [e.key for e in made.unmapped] == ["score.weight", "a.b"]
    assert models.finding(made, "unexpected-tensor").keys == ("score.weight", "a.b")
    assert made.status == "fixable"
    assert [e.key for e in made.weights if e in made.unmapped] == ["score.weight", "a.b"]
