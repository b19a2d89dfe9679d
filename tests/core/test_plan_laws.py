"""Laws that hold for every checkpoint, whatever is in it: generated ones, with odd names, nesting and wrong values."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt_gui.core.checked_stream import open_part
from ckpt_gui.core.diffing import diff_expected
from ckpt_gui.core.export import Export, Target
from ckpt_gui.core.exprs import shape_of
from ckpt_gui.core.normalise import normalise, understand
from ckpt_gui.core.out_files import Part
from ckpt_gui.core.passes import PIPELINE
from ckpt_gui.core.passes.unwrap import unwrap
from ckpt_gui.core.plan import Plan, account
from ckpt_gui.core.policy import Policy
from ckpt_gui.core.retarget import retarget
from ckpt_gui.core.source import Source
from tests.core import models

FRONTS = ("", "_orig_mod.", "module.", "module._orig_mod.", "model.", "model._orig_mod.", "x.")
STRAY = (
    "rope.freqs", "n_averaged", "lm_head.weight", "output.weight", "model.norm.weight", "norm.weight", "norm.scale",
    "_orig_mod.norm.weight", "layers.0._extra_state", "layers.{}.attention.wq.weight", "layers.00.attention.wq.weight",
    "layers.7.attention.wq.weight", "", ".", "_orig_mod", "module", "a\x1b.b", "model.model.norm.weight",
    "score.weight",
    "layers.0.attention.wq.bias", "step", "w.exp_avg",
)  # fmt: skip


CONFIGS = (
    None, models.config(), models.config(tie_word_embeddings=True), models.mistral_config(),
    models.config(model_type="gpt2"), models.config(num_attention_heads=3),
)  # fmt: skip


class Named(dict[str, Any]):
    """A dict that shows its names and no values: a failing example fits on a screen."""

    def __repr__(self) -> str:
        return f"<{len(self)}: {' '.join(f'{k}={v!r}' if isinstance(v, dict) else k for k, v in self.items())}>"


@st.composite
def checkpoints(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any] | None, Policy]:
    """A checkpoint, more or less whole, its config, and what the user wants."""
    layout = draw(st.sampled_from(sorted(models.COLUMN)))
    head = draw(st.sampled_from(["own", "absent", "equal", "same", "only"]))
    tensors = models.state(layout, head=head, biases=draw(st.booleans()))
    front = draw(st.sampled_from(FRONTS))
    made = Named({front + key: value for key, value in tensors.items()})
    for key in draw(st.lists(st.sampled_from(sorted(made)), max_size=3)):
        made.pop(key, None)
    for key in draw(st.lists(st.sampled_from(STRAY), max_size=4)):
        made.setdefault(key, np.full(draw(st.sampled_from([(), (3,), (24,), (50, 24)])), 0.5, np.float32))
    if draw(st.booleans()):
        made = Named({draw(st.sampled_from(["model", "state_dict", "ema"])): made})
        if draw(st.booleans()):
            moments = Named({"exp_avg": np.zeros(3, np.float32), "step": np.zeros((), np.float32)})
            made["optimizer"] = Named({"state": Named({"0": moments})})
        if draw(st.booleans()):
            made["state_dict_ema"] = Named({key: value + 1 for key, value in tensors.items()})
    config = draw(st.sampled_from(CONFIGS))
    paths = sorted(ref.full_key for ref in models.source(made).refs)
    ticked = frozenset(draw(st.lists(st.sampled_from(paths), max_size=2))) if paths else frozenset()
    policy = Policy(
        tie=draw(st.sampled_from(["auto", "keep", "drop", "copy"])),
        skip=frozenset(draw(st.lists(st.sampled_from(["buffers", "tie", "unwrap", "permute"]), max_size=1))),
        heads=draw(st.sampled_from([None, None, 4, 5])),
        section=draw(st.sampled_from([None, None, ("model",), ("nowhere",)])),
        dropped=ticked,
    )
    return made, config, policy


TARGETS = st.builds(
    Target,
    layout=st.sampled_from(["same", "hf", "meta", "torchtune"]),
    dtype=st.sampled_from(["keep", "bf16"]),
    container=st.sampled_from([None, "safetensors", "torch"]),
)


def facts(plan: Plan) -> tuple[Any, ...]:
    """What a plan says, without its order."""
    return (
        plan.family, plan.layout, plan.section, plan.prefix, dict(plan.dims), dict(plan.dims_from), plan.tie,
        sorted(plan.wrappers), sorted((e.key, e.ref.path, e.ops) for e in plan.entries),
        sorted((e.key, e.ref.path) for e in plan.unmapped),
        sorted((d.ref.path, d.kind, d.reason) for d in plan.dropped),
        sorted((f.code, f.severity, f.blocking, tuple(sorted(f.keys))) for f in plan.findings),
        sorted(s.key for s in plan.missing), plan.status,
    )  # fmt: skip


def check_export(export: Export) -> None:
    used = {id(r) for e in export.entries for r in e.inputs}
    gone = [id(d.ref) for d in (*export.dropped, *export.beside)]
    assert used.isdisjoint(gone), "a tensor is both written and left out"
    assert len(gone) == len(set(gone)), "a tensor is left out twice"
    assert used | set(gone) == {id(r) for r in export.plan.source.refs}, "a tensor is lost"
    twice = [key for key, count in Counter(e.key for e in export.entries).items() if count > 1]
    assert not twice or export.blocked, "a name is written twice"
    tie = export.plan.tie
    if tie.head is not None and tie.state in ("different", "unchecked") and id(tie.head) not in used:
        assert export.blocked or any(d.ref is tie.head and d.kind == "user" for d in export.dropped)
    for entry in export.entries:
        assert shape_of(entry.expr, export.plan.dims) == entry.output.shape


@given(checkpoints(), TARGETS)
def test_accounting(made: tuple[Any, Any, Policy], target: Target) -> None:
    tensors, config, policy = made
    plan = understand(models.source(tensors, config), policy)
    account(plan)
    export = retarget(plan, target)
    check_export(export)
    rows = diff_expected(export).rows
    refs = [id(row.ref) for row in rows if row.ref is not None]
    assert len(refs) == len(set(refs))
    assert set(refs) == {id(r) for r in plan.source.refs}


@given(checkpoints(), st.randoms(use_true_random=False))
def test_the_plan_does_not_hang_on_file_order(made: tuple[Any, Any, Policy], shuffler: random.Random) -> None:
    tensors, config, policy = made
    source = models.source(tensors, config)
    refs = list(source.refs)
    shuffler.shuffle(refs)
    assert facts(understand(source.replace(refs=tuple(refs)), policy)) == facts(understand(source, policy))


@given(checkpoints())
def test_the_plan_is_a_pure_function(made: tuple[Any, Any, Policy]) -> None:
    tensors, config, policy = made
    source = models.source(tensors, config)
    assert normalise(source, policy) == normalise(source, policy)


@given(checkpoints())
def test_unwrapping_its_own_result_changes_nothing(made: tuple[Any, Any, Policy]) -> None:
    tensors, config, policy = made
    plan = PIPELINE[0](Plan(models.source(tensors, config), policy))
    once = unwrap(plan)
    if "key-collision" not in models.codes(once):
        assert {e.key for e in unwrap(once).entries} == {e.key for e in once.entries}


def exported(export: Export) -> Source:
    """What a torch file of an export would hold, in memory: what is made alike shares a storage."""
    made: dict[Any, np.ndarray] = {}
    arrays = {}
    for entry in export.entries:
        if entry.identity not in made:
            out = np.zeros(entry.output.nbytes, np.uint8)
            open_part(export.plan.source, Part(entry.key, entry), export.plan.dims).read_into(0, out)
            made[entry.identity] = out.view(np.float32).reshape(entry.output.shape)
        arrays[entry.key] = made[entry.identity]
    text = export.texts.get("config.json")
    return models.source(arrays, json.loads(text) if text else export.plan.source.sidecars.config)


@given(checkpoints(), st.sampled_from(["same", "hf", "meta", "torchtune"]))
def test_an_export_of_an_export_is_the_same(made: tuple[Any, Any, Policy], layout: str) -> None:
    tensors, config, policy = made
    export = retarget(understand(models.source(tensors, config), policy), Target(layout))
    if export.blocked or not export.entries or "buffers" in policy.skip:
        return
    settled = Policy(tie=policy.tie, heads=policy.heads, skip=policy.skip)
    first = exported(export)
    again = retarget(understand(first, settled), Target("same" if layout == "same" else layout))
    if "permute" not in policy.skip:
        assert not again.blocked
    second = exported(again)
    assert models.stored(second) == models.stored(first)
    assert "wrapper-prefix" not in models.codes(again.plan) or "unwrap" in policy.skip


LAYOUTS = st.sampled_from(sorted(models.COLUMN))


@given(LAYOUTS, LAYOUTS, st.sampled_from(["keep", "bf16", "fp16"]), st.integers(1, 6))
def test_a_stream_is_the_same_in_blocks_of_any_size(layout: str, target: str, dtype: str, units: int) -> None:
    export = retarget(models.model(layout), Target(target, dtype=dtype))
    for entry in export.entries[:12]:
        whole = np.zeros(entry.output.nbytes, np.uint8)
        parts = whole.copy()
        open_part(export.plan.source, Part(entry.key, entry), export.plan.dims).read_into(0, whole)
        stream = open_part(export.plan.source, Part(entry.key, entry), export.plan.dims)
        step = units * stream.unit
        for start in range(0, len(parts), step):
            stream.read_into(start, parts[start : start + step])
        assert parts.tobytes() == whole.tobytes()
        assert (stream.shape, stream.dtype) == (entry.output.shape, entry.output.dtype)


def test_account_sees_a_mistake() -> None:
    plan = models.model()
    for wrong in (
        plan.replace(entries=plan.entries[1:]),
        plan.replace(unmapped=plan.entries[:1]),
        plan.replace(entries=(), unmapped=(*plan.entries, plan.entries[0])),
    ):
        with pytest.raises(AssertionError, match="a tensor is"):
            account(wrong)
