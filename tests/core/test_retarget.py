"""From a plan to an export: every layout to every other, byte for byte."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from ckpt_gui.core.checked_stream import open_part
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.export import Export, Target
from ckpt_gui.core.out_files import Part
from ckpt_gui.core.retarget import retarget
from tests.core import models

LAYOUTS = tuple(models.COLUMN)


def written(export: Export) -> dict[str, bytes]:
    """The bytes that an export would write."""
    made = {}
    for entry in export.entries:
        stream = open_part(export.plan.source, Part(entry.key, entry), export.plan.dims)
        out = np.zeros(entry.output.nbytes, np.uint8)
        stream.read_into(0, out)
        made[entry.key] = out.tobytes()
        assert stream.shape == entry.output.shape
        assert stream.dtype == entry.output.dtype
    return made


@pytest.mark.parametrize(("layout", "target"), list(product(LAYOUTS, LAYOUTS)))
@pytest.mark.parametrize("biases", [False, True])
@pytest.mark.parametrize("head", ["own", "absent"])
def test_every_layout_to_every_other(layout: str, target: str, biases: bool, head: str) -> None:
    export = retarget(models.model(layout, biases=biases, head=head), Target(target))
    wanted = models.state(target, biases=biases, head="same" if head == "absent" and target == "meta" else head)
    assert not export.blocked
    assert written(export) == models.as_bytes(wanted)
    steps = {s.id: s for s in export.steps}
    assert ("permute" in steps) == ((layout == "hf") != (target == "hf"))
    if "permute" in steps:
        assert steps["permute"].changes_values
        assert steps["permute"].count == models.LAYERS * (4 if biases else 2)
        assert "4 heads and 2 key/value heads, from config.json" in steps["permute"].evidence


@pytest.mark.parametrize(("layout", "over"), [(a, b) for a, b in product(LAYOUTS, LAYOUTS) if a != b])
def test_there_and_back_again(layout: str, over: str) -> None:
    there = retarget(models.model(layout, biases=True), Target(over))
    shapes = {e.key: e.output.shape for e in there.entries}
    arrays = {key: np.frombuffer(raw, np.float32).reshape(shapes[key]) for key, raw in written(there).items()}
    back = retarget(models.plan(arrays, models.config(attention_bias=True)), Target(layout))
    assert written(back) == models.as_bytes(models.state(layout, biases=True))


@pytest.mark.parametrize(("layout", "target"), list(product(LAYOUTS, LAYOUTS)))
def test_heads_are_asked_for_only_where_rows_move(layout: str, target: str) -> None:
    export = retarget(models.plan(models.state(layout)), Target(target))
    needed = (layout == "hf") != (target == "hf")
    assert [f.code for f in export.blocked] == (["heads-unknown"] if needed else [])
    if needed:
        found = export.blocked[0]
        assert len(found.keys) == 2 * models.LAYERS
        assert "32 × 24" in found.message
        assert "--heads" in (found.fix or "")
    else:
        assert written(export) == models.as_bytes(models.state(target))


@pytest.mark.parametrize("kv_heads", [None, 2])
def test_heads_from_the_user(kv_heads: int | None) -> None:
    export = retarget(models.plan(models.state("meta"), heads=4, kv_heads=kv_heads), Target("hf"))
    assert written(export) == models.as_bytes(models.state("hf"))
    assert "from the user" in next(s for s in export.steps if s.id == "permute").evidence


def test_the_key_heads_are_their_own() -> None:
    """k reordered by the number of query heads is another tensor; this bug shipped in 2023."""
    k = models.state("hf")["model.layers.0.self_attn.k_proj.weight"]
    assert models.to_pairs(k, models.HEADS).tobytes() != models.to_pairs(k, models.KV_HEADS).tobytes()


@pytest.mark.parametrize(
    ("layout", "target"), [("meta", "hf"), ("hf", "torchtune"), ("meta", "torchtune"), ("hf", "same")]
)
def test_the_reordering_can_be_refused_and_then_blocks(layout: str, target: str) -> None:
    export = retarget(models.model(layout, skip=frozenset(["permute"])), Target(target))
    moves = target != "same" and (layout == "hf") != (target == "hf")
    assert [f.code for f in export.blocked] == (["rope-permuted"] if moves else [])
    assert all(not e.ops for e in export.entries)


@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp32", "keep"])
def test_casts(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    tensors: dict[str, Any] = dict(models.state("meta"))
    tensors["rope.freqs"] = np.ones(4, np.float32)
    tensors["count"] = np.arange(3, dtype=np.int64)
    export = retarget(models.plan(tensors, models.config()), Target("hf", dtype=dtype))
    kinds = {"bf16": torch.bfloat16, "fp16": torch.float16}
    wanted = models.state("hf")
    got = written(export)
    assert got["count"] == tensors["count"].tobytes()  # a whole number stays what it is
    for key, array in wanted.items():
        cast = torch.from_numpy(array).to(kinds.get(dtype, torch.float32))
        assert got[key] == cast.view(torch.uint8).numpy().tobytes()
    assert ("cast" in {s.id for s in export.steps}) == (dtype in kinds)
    text = export.texts["config.json"]
    assert f'"torch_dtype": "{ {"bf16": "bfloat16", "fp16": "float16"}.get(dtype, "float32") }"' in text


def test_overflow_is_counted() -> None:
    tensors = models.state("hf")
    tensors["model.norm.weight"][:3] = [7e4, -7e4, np.inf]
    export = retarget(models.plan(tensors, models.config()), Target("hf", dtype="fp16"))
    entry = next(e for e in export.entries if e.key == "model.norm.weight")
    stream = open_part(export.plan.source, Part(entry.key, entry), export.plan.dims)
    stream.read_into(0, np.zeros(entry.output.nbytes, np.uint8))
    assert stream.overflow == 2  # type: ignore[attr-defined]


def test_a_tensor_named_like_the_target_of_another_blocks() -> None:
    tensors = models.state("meta") | {"lm_head.weight": np.zeros((2, 2), np.float32)}
    export = retarget(models.plan(tensors, models.config()), Target("hf"))
    found = next(f for f in export.blocked if f.code == "key-collision")
    assert set(found.keys) == {"output.weight", "lm_head.weight"}
    assert "2 tensors would be written as `lm_head.weight`" in found.message
    assert not retarget(models.plan(tensors, models.config()), Target("same")).blocked
    settled = models.plan(tensors, models.config(), dropped=frozenset(["lm_head.weight"]))
    assert written(retarget(settled, Target("hf"))) == models.as_bytes(models.state("hf"))


def test_what_fits_nothing_is_carried_along() -> None:
    extra = np.arange(6, dtype=np.float32).reshape(2, 3)
    export = retarget(models.plan(models.state("meta") | {"score.weight": extra}, models.config()), Target("hf"))
    assert written(export)["score.weight"] == extra.tobytes()
    assert "unexpected-tensor" in models.codes(export)


def test_the_user_leaves_a_tensor_out() -> None:
    tensors = models.state("meta") | {"score.weight": np.zeros(3, np.float32), "rope.freqs": np.zeros(4, np.float32)}
    plan = models.plan(tensors, models.config(), dropped=frozenset(["score.weight", "rope.freqs"]))
    for target in ("same", "hf"):
        export = retarget(plan, Target(target))
        assert not export.blocked
        assert {d.ref.key: d.kind for d in export.dropped} == {"score.weight": "user", "rope.freqs": "user"}
        assert next(s for s in export.steps if s.id == "drop").count == 2
    needed = models.plan(tensors, models.config(), dropped=frozenset(["norm.weight"]))
    found = next(f for f in retarget(needed, Target("hf")).blocked)
    assert (found.code, found.keys) == ("missing-tensor", ("norm.weight",))
    assert "your choice" in (found.fix or "")


def test_usual_buffers_stay_where_the_layout_stays() -> None:
    freqs = np.arange(4, dtype=np.float32)
    plan = models.plan(models.state("meta") | {"rope.freqs": freqs, "freqs_cis": freqs}, models.config())
    same = retarget(plan, Target("same"))
    assert written(same)["rope.freqs"] == freqs.tobytes()
    assert [d.key for d in same.dropped] == ["freqs_cis"]
    assert written(retarget(plan, Target("meta")))["rope.freqs"] == freqs.tobytes()
    other = retarget(plan, Target("torchtune"))
    assert {d.key for d in other.dropped} == {"rope.freqs", "freqs_cis"}


@pytest.mark.parametrize("target", [*LAYOUTS, "same"])
def test_an_unknown_layout_goes_only_as_it_is(target: str) -> None:
    keys = ["_orig_mod.h.0.w", "_orig_mod.h.1.w"]
    export = retarget(models.keys_plan(keys), Target(target))
    if target == "same":
        assert not export.blocked
        assert [e.key for e in export.entries] == ["h.0.w", "h.1.w"]
    else:
        assert [f.code for f in export.blocked] == ["unknown-layout"]


@pytest.mark.parametrize("words", [{"layout": "gguf"}, {"dtype": "int8"}, {"container": "zip"}, {"layout": "\x1b"}])
def test_words(words: dict[str, str]) -> None:
    with pytest.raises(CheckpointError) as caught:
        retarget(models.model(), Target(**words))
    assert "choose" in caught.value.message
    assert "\x1b" not in caught.value.message


@pytest.mark.parametrize("front", ["_orig_mod.", "module._orig_mod."])
def test_steps_say_what_is_done(front: str) -> None:
    tensors = {"model": {front + k: v for k, v in models.state("torchtune", head="same").items()}, "step": 3}
    plan = models.plan(tensors, models.config(tie_word_embeddings=True))
    export = retarget(plan, Target("hf", dtype="bf16"))
    steps = {s.id: s for s in export.steps}
    assert list(steps) == ["section", "unwrap", "rename", "permute", "tie", "cast", "config"]
    assert all(s.evidence and s.title and s.count for s in export.steps)
    assert steps["unwrap"].count == len(export.entries)
    assert steps["rename"].examples[0] == (front + "tok_embeddings.weight", "model.embed_tokens.weight")
    assert export.certain
    assert not retarget(plan, Target("hf")).findings[0].blocking


def test_a_tie_that_nothing_states_is_not_certain() -> None:
    """Without a config, that a head is absent is all there is to tell that it is tied."""
    export = retarget(models.plan(models.state("hf", head="absent"), heads=4), Target("meta"))
    assert not export.blocked
    assert [s.certain for s in export.steps if s.id == "tie"] == [False]
    stated = retarget(models.model("hf", head="absent"), Target("meta"))
    assert [s.certain for s in stated.steps if s.id == "tie"] == [True]


@pytest.mark.parametrize(("kind", "told"), [("default", False), ("linear", True)])
def test_only_what_scales_is_unknown_to_metas_programs(kind: str, told: bool) -> None:
    plan = models.plan(models.state("hf"), models.config(rope_scaling={"rope_type": kind, "factor": 2.0}))
    found = [f for f in retarget(plan, Target("meta")).findings if "no rotary scaling of the kind" in f.message]
    assert [f.code for f in found] == (["config-mismatch"] if told else [])
