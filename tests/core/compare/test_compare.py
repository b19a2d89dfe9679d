"""Any two checkpoints beside each other: through layouts, fused and split, tied and untied, by values and by names."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ckpt_gui.core.casts import cast
from ckpt_gui.core.compare import STATES, Comparison, Row, compare, opened_sides, side_of_plan
from ckpt_gui.core.compare.findings import diff_findings
from ckpt_gui.core.dtypes import BY_NAME as BY_SHORT
from ckpt_gui.core.families.registry import BY_NAME
from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.formats.files import HeldFile
from ckpt_gui.core.normalise import normalise, understand
from ckpt_gui.core.plan import Plan
from ckpt_gui.core.policy import Policy
from tests import builders
from tests.core import models
from tests.core import test_adapters as adapters
from tests.core import test_families_dense as dense
from tests.core import test_families_fused as fused
from tests.core import test_gguf_export as quantised
from tests.core import test_ties as ties

TOTAL = len(models.names("hf"))
Q = "model.layers.0.self_attn.q_proj.weight"
EMBEDDING, HEAD = "model.embed_tokens.weight", "lm_head.weight"
MIRROR = {"only-a": "only-b", "only-b": "only-a"}
TIED = models.config(tie_word_embeddings=True)


def compared(one: Plan, two: Plan, **how: Any) -> Comparison:
    """Compare values, and hold the result against its laws."""
    how = {"values": True} | how
    a, b = side_of_plan(one), side_of_plan(two)
    made = compare(a, b, **how)
    back = compare(b, a, **how)
    assert Counter(MIRROR.get(s, s) for s in made.counts.elements()) == back.counts, "states are symmetrical"
    for side, keys in ((a, [r.a for r in made.rows]), (b, [r.b for r in made.rows])):
        seen = Counter(stored.key for stored in keys if stored is not None)
        assert seen.keys() == {t.key for t in side.tensors.values()}, "every tensor stands in a row"
    for whole in (a, b):
        assert compare(whole, whole, **how).same is True
    return made


def states(found: Comparison) -> dict[str, int]:
    return dict(found.counts)


def row(found: Comparison, key: str) -> Row:
    (one,) = [r for r in found.rows if r.key == key]
    return one


def of(state: models.State, **config: Any) -> Plan:
    return models.plan(state, models.config(**config))


# ---- the same model in other layouts


@pytest.mark.parametrize("values", [False, True])
@pytest.mark.parametrize("name", ["llama", "qwen2", "gemma2", "smollm3"])
def test_dense_families_in_every_layout(name: str, values: bool) -> None:
    family = BY_NAME[name]
    hub = models.plan(dense.tensors(family, optional=False), dense.config(family, attention_bias=False, mlp_bias=False))
    names = [layout.name for layout in family.layouts if layout.name != "google"]  # which has no place for a head
    plans = [normalise(dense.sent(hub, name), Policy(stored=name)) for name in names]
    for plan in plans:
        assert states(compared(plans[0], plan, values=values)) == {"equal" if values else "fits": len(hub.entries)}


@pytest.mark.parametrize(("name", "layout"), [k for k in fused.LAYOUTS if k[0] in ("phi3", "mixtral", "gpt-neox")])
def test_fused_and_split(name: str, layout: str) -> None:
    state = fused.hub_state(name)
    one = models.plan(state, fused.config(name))
    two = models.plan(fused.LAYOUTS[name, layout](state), fused.config(name))
    assert two.layout is not None
    assert two.layout.name == layout
    assert states(compared(one, two)) == {"equal": len(state)}
    key = next(k for k in state if "layers.1" in k and state[k].ndim == 2)
    changed = models.plan(state | {key: state[key] + 1}, fused.config(name))
    assert states(compared(changed, two)) == {"equal": len(state) - 1, "differs": 1}


@pytest.mark.parametrize("wrapped", ["_orig_mod.", "module.", "_fsdp_wrapped_module."])
def test_wrappers_do_not_count(wrapped: str) -> None:
    state = models.state("meta")
    plans = [models.plan(s, None, models.params()) for s in (state, {wrapped + k: v for k, v in state.items()})]
    assert states(compared(*plans)) == {"equal": TOTAL}


# ---- values


def test_one_tensor_that_differs_is_measured() -> None:
    state = models.state("hf")
    more = state[Q].copy()
    more[3, 5] += 7
    more[4, 1] -= 2
    found = compared(of(state), of(state | {Q: more}))
    assert states(found) == {"equal": TOTAL - 1, "differs": 1}
    assert (found.same, found.values) == (False, True)
    delta = row(found, Q).delta
    assert delta is not None
    assert (delta.count, delta.changed, delta.skipped, delta.max_diff, delta.where) == (more.size, 2, 0, 7.0, (3, 5))
    norms = [float(np.linalg.norm(x.astype(np.float64))) for x in (more - state[Q], state[Q], more)]
    assert [delta.norm, delta.norm_a, delta.norm_b] == pytest.approx(norms, rel=1e-12)
    assert delta.relative == pytest.approx(norms[0] / norms[1])
    assert delta.share == 2 / more.size


def test_not_finite_elements_are_left_out_of_the_sums() -> None:
    state = models.state("hf")
    odd = state[Q].copy()
    odd[0, 0], odd[0, 1], odd[1, 0] = np.nan, np.inf, 5
    delta = row(compared(of(state), of(state | {Q: odd})), Q).delta
    assert delta is not None
    assert (delta.changed, delta.skipped, delta.where) == (3, 2, (1, 0))
    assert delta.max_diff == abs(5 - float(state[Q][1, 0]))
    assert row(compared(of(state | {Q: odd}), of(state | {Q: odd})), Q).state == "equal"


def test_zeros_of_either_sign_are_not_the_same_bytes() -> None:
    zero = models.state("hf") | {Q: np.zeros_like(models.state("hf")[Q])}
    delta = row(compared(of(zero), of(zero | {Q: -zero[Q]})), Q).delta
    assert delta is not None
    assert (delta.changed, delta.max_diff, delta.relative) == (delta.count, 0.0, None)


def test_a_cast_copy() -> None:
    wide = {k: (v / 64).astype(np.float32) for k, v in models.state("hf").items()}
    narrow = {k: v.astype(np.float16) for k, v in wide.items()}
    assert states(compared(of(wide), of(narrow))) == {"cast": TOTAL}
    assert states(compared(of(wide), of(narrow), values=False)) == {"dtype": TOTAL}
    other = compared(of(wide), of(narrow | {Q: narrow[Q] + np.float16(1)}))
    assert states(other) == {"cast": TOTAL - 1, "differs": 1}


def test_rows_in_the_other_rotary_order() -> None:
    hf, meta = models.state("hf"), models.state("meta")
    rows = {h: meta[m] for h, m, _ in models.names("meta") if "q_proj" in h or "k_proj" in h}
    found = compared(of(hf), of(hf | rows))
    assert states(found) == {"equal": TOTAL - 2 * models.LAYERS, "permuted": 2 * models.LAYERS}
    assert row(found, Q).note == "the rows of a head lie as halves in A and as neighbouring pairs in B"


@pytest.mark.parametrize("both", [True, False])
def test_changed_places(both: bool) -> None:
    state = models.state("hf")
    gate, up = "model.layers.1.mlp.gate_proj.weight", "model.layers.1.mlp.up_proj.weight"
    other = state | {gate: state[up], up: state[gate] if both else state[up] + 1}
    found = compared(of(state), of(other))
    assert states(found) == {"equal": TOTAL - 2, "swapped": 2}
    note = f"has changed places with `{up}`" if both else f"has in B the values of `{up}` in A"
    assert row(found, gate).note == note


def test_values_that_two_others_have() -> None:
    """b and c of B both have the values of a in A: it does not matter from which side one looks."""
    one = unknown(a=ramp(3), b=ramp(3, start=2), c=ramp(3, start=1))
    two = unknown(a=ramp(3, start=1), b=ramp(3), c=ramp(3))
    found = compared(one, two)
    assert states(found) == {"swapped": 3}
    assert row(found, "c").note == "has changed places with `a`"
    assert row(found, "b").note == "has in B the values of `a` in A"


def test_added_tokens() -> None:
    state = models.state("hf")
    more = {k: np.concatenate([state[k], state[k][:3]]) for k in (EMBEDDING, HEAD)}
    more[HEAD][0, 0] += 9
    found = compared(of(state), of(state | more))
    assert states(found) == {"equal": TOTAL - 2, "vocab": 2}
    assert row(found, EMBEDDING).note == "the rows that both have are equal"
    assert row(found, HEAD).note == "the rows that both have differ"
    delta = row(found, HEAD).delta
    assert delta is not None
    assert (delta.count, delta.changed) == (state[HEAD].size, 1)


def test_missing_and_other_shapes() -> None:
    state = models.state("hf")
    less = {k: v for k, v in state.items() if k != "model.norm.weight"} | {Q: state[Q][:-8]}
    found = compared(of(state), of(less))
    assert states(found) == {"equal": TOTAL - 2, "only-a": 1, "shape": 1}


# ---- the tied pair


def tied(head: str, layout: str = "hf", *, understood: bool = True) -> Plan:
    source = models.source(models.state(layout, head=head), TIED)
    return models.plan(models.state(layout, head=head), TIED) if understood else normalise(source)


@pytest.mark.parametrize("values", [False, True])
@pytest.mark.parametrize(("head", "layout"), [("equal", "hf"), ("same", "hf"), ("equal", "meta")])
def test_a_copy_of_a_tied_head_is_no_difference(head: str, layout: str, values: bool) -> None:
    found = compared(tied("absent"), tied(head, layout, understood=values), values=values)
    assert states(found) == {"equal" if values else "fits": TOTAL - 1, "tied": 1}
    assert found.same is True
    one = row(found, HEAD)
    assert one.a is not None
    assert one.b is not None
    assert (one.a.key, one.b.key) == (models.EMBEDDING["hf"], models.HEAD[layout])


def test_a_head_that_was_trained_is_a_difference() -> None:
    found = compared(tied("absent"), tied("own"))
    assert states(found) == {"equal": TOTAL - 1, "untied": 1}
    delta = row(found, HEAD).delta
    assert delta is not None
    assert delta.changed == delta.count
    assert found.same is False


def test_a_copy_of_another_embedding() -> None:
    """B's head is a copy of its own embedding, which differs: the embedding's row says so, and the head stays tied."""
    state = models.state("hf", head="equal")
    changed = state | {EMBEDDING: state[EMBEDDING] + 1, HEAD: state[HEAD] + 1}
    found = compared(tied("absent"), models.plan(changed, TIED))
    assert states(found) == {"equal": TOTAL - 2, "differs": 1, "tied": 1}


# ---- names that fit nothing


def unknown(**arrays: np.ndarray) -> Plan:
    return models.plan({key.replace("__", "."): value for key, value in arrays.items()})


def ramp(*shape: int, start: float = 0) -> np.ndarray:
    return (np.arange(int(np.prod(shape)), dtype=np.float32) + start).reshape(shape)


def test_unknown_names_then_shapes_then_bytes() -> None:
    one = unknown(a=ramp(4), left__w=ramp(3, 5), left__x=ramp(6, 2), left__y=ramp(6, 2, start=9), alone=ramp(2, 2, 2))
    two = unknown(a=ramp(4), right__w=ramp(3, 5), right__y=ramp(6, 2, start=9), right__x=ramp(6, 2), only=ramp(7))
    headers = compared(one, two, values=False)
    assert states(headers) == {"fits": 1, "renamed": 1, "only-a": 3, "only-b": 3}
    found = compared(one, two)
    assert states(found) == {"equal": 1, "renamed": 3, "only-a": 1, "only-b": 1}
    names = {r.a.key: (r.b.key, r.how) for r in found.rows if r.state == "renamed" and r.a and r.b}
    assert names == {
        "left.w": ("right.w", "bytes"), "left.x": ("right.x", "bytes"), "left.y": ("right.y", "bytes"),
    }  # fmt: skip


def test_a_shape_alone_proves_nothing() -> None:
    found = compared(unknown(a=ramp(3, 5)), unknown(b=ramp(3, 5, start=1)))
    assert states(found) == {"differs": 1}
    assert found.rows[0].how == "shape"
    assert "names differ" in found.rows[0].note


def test_slots_are_not_matched_by_shape() -> None:
    """A lacks k's bias and B lacks v's: two different parts of the model, of one shape."""
    state = models.state("hf", biases=True)
    k, v = "model.layers.0.self_attn.k_proj.bias", "model.layers.0.self_attn.v_proj.bias"
    plans = [of({n: x for n, x in state.items() if n != gone}, attention_bias=True) for gone in (k, v)]
    counts = states(compared(*plans, values=False))
    assert (counts["only-a"], counts["only-b"]) == (1, 1)


# ---- adapters


def test_adapters_of_two_tools() -> None:
    base, _ = adapters.base()
    made = adapters.pairs(base, adapters.all_modules())
    one = adapters.adapter_plan(adapters.peft(made), adapters.peft_config(), models.config())
    converted = adapters.retarget(one, adapters.Target("torchtune"))
    two = adapters.adapter_plan(
        {e.key: array(one, e) for e in converted.entries}, adapters.peft_config(), models.config()
    )
    assert (one.adapter is not None, two.adapter is not None) == (True, True)
    assert two.adapter is not None
    assert two.adapter.style == "torchtune"
    assert states(compared(one, two)) == {"equal": 2 * len(made)}


def test_adapters_with_the_same_tensors_and_another_scale() -> None:
    made = adapters.peft(adapters.pairs(adapters.base()[0], adapters.all_modules()))
    plans = [adapters.adapter_plan(made, adapters.peft_config(lora_alpha=n), models.config()) for n in (8, 16)]
    found = compared(*plans)
    assert found.same is True
    rank = adapters.RANK
    assert {c.name: (c.a, c.b) for c in found.config} == {
        "adapter's alpha": ("8", "16"), "adapter's scale": (f"{8 / rank:g}", f"{16 / rank:g}"),
    }  # fmt: skip


def array(plan: Plan, entry: Any) -> np.ndarray:
    out = np.zeros(entry.output.nbytes, np.uint8)
    dense.open_part(plan.source, dense.Part(entry.key, entry), plan.dims).read_into(0, out)
    return out.view(np.float32).reshape(entry.output.shape)


# ---- fine-tunes, budgets, stops


def test_partial_results_when_stopped() -> None:
    state = models.state("hf")
    seen: list[tuple[int, Row]] = []
    steps: list[tuple[int, int]] = []
    a, b = side_of_plan(of(state)), side_of_plan(of(state))
    found = compare(
        a, b, values=True, workers=1, cancelled=lambda: len(seen) >= 5,
        found=lambda i, r: seen.append((i, r)), progress=lambda _, done, total: steps.append((done, total)),
    )  # fmt: skip
    assert (found.stopped, found.same) == (True, None)
    assert states(found) == {"equal": 5, "unread": TOTAL - 5}
    assert {found.rows[i] for i, _ in seen} == {r for _, r in seen}
    whole = compare(a, b, values=True, progress=lambda _, done, total: steps.append((done, total)))
    assert steps[-1] == (sum(v.nbytes for v in state.values()),) * 2
    assert (whole.stopped, whole.same) == (False, True)


def test_a_budget() -> None:
    plan = of(models.state("hf"))
    found = compare(side_of_plan(plan), side_of_plan(plan), values=True, budget=20_000)
    assert set(found.counts) == {"equal", "unread"}
    assert found.same is None
    read = sum(2 * row.a.entry.output.nbytes for row in found.rows if row.state == "equal" and row.a and row.a.entry)
    left_out = [row.a.entry.output.nbytes for row in found.rows if row.state == "unread" and row.a and row.a.entry]
    assert read <= 20_000 < read + 2 * min(left_out), "what still fits is compared, whatever stands before it"
    [told] = [f for f in diff_findings(found) if f.code == "values-unchecked"]
    assert told.fix == "Raise --budget."


def test_heads_that_nobody_knows() -> None:
    plans = [models.plan(models.state(layout)) for layout in ("hf", "meta")]
    meta = models.state("meta")
    changed = meta | {"layers.0.attention.wq.weight": meta["layers.1.attention.wq.weight"]}
    assert states(compared(plans[1], models.plan(changed))) == {"equal": TOTAL - 1, "differs": 1}
    assert states(compared(*plans)) == {"equal": TOTAL - 2 * models.LAYERS, "unread": 2 * models.LAYERS}


def test_every_state_has_words() -> None:
    from ckpt_gui.core.against import WORDS as BESIDE
    from ckpt_gui.core.compare import WORDS

    assert set(STATES) == set(WORDS) == set(BESIDE)


def test_configs() -> None:
    state = models.state("hf")
    one = of(state, rope_theta=10000.0)
    two = of(state, rope_theta=500000.0, tie_word_embeddings=True, max_position_embeddings=4096)
    found = compare(side_of_plan(one), side_of_plan(two))
    assert {c.name: (c.a, c.b) for c in found.config} == {
        "rope_theta": ("10,000", "500,000"),
        "tie_word_embeddings": ("false", "true"),
        "max_positions": ("512", "4,096"),
    }
    assert found.same is True


# ---- types


def in_file(tmp_path: Path, name: str, dtype: str, raw: bytes, shape: tuple[int, ...]) -> Plan:
    """A file with one tensor of a type that numpy lacks."""
    header = {"w": {"dtype": BY_SHORT[dtype].safetensors, "shape": list(shape), "data_offsets": [0, len(raw)]}}
    path = tmp_path / f"{name}.safetensors"
    path.write_bytes(builders.raw_safetensors(header, raw))
    return understand(open_checkpoint(path))


def bits16(values: np.ndarray, dtype: str) -> bytes:
    return cast(np.ascontiguousarray(values, np.float32).view(np.uint8), "fp32", dtype)[0].tobytes()


@pytest.mark.parametrize(("one", "two"), [("bf16", "fp16"), ("fp16", "bf16")])
def test_bf16_beside_fp16_is_a_cast_either_way(tmp_path: Path, one: str, two: str) -> None:
    """One was rounded from the other; which one only a cast in both directions tells."""
    fine = np.linspace(-1, 1, 40, dtype=np.float32)
    first = bits16(fine, one)
    wide = np.frombuffer(first, np.uint8)
    second = cast(wide, one, two)[0].tobytes()
    plans = [in_file(tmp_path, "a", one, first, (40,)), in_file(tmp_path, "b", two, second, (40,))]
    assert states(compared(*plans)) == {"cast": 1}
    other = in_file(tmp_path, "c", two, bits16(fine + 1, two), (40,))
    found = compared(plans[0], other)
    assert states(found) == {"differs": 1}
    delta = found.rows[0].delta
    assert delta is not None
    assert delta.max_diff == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize("dtype", ["fp8_e4m3", "fp8_e5m2", "i8", "u8", "i16", "i32", "i64", "bool", "fp64"])
def test_every_type_is_measured(tmp_path: Path, dtype: str) -> None:
    width = BY_SHORT[dtype].itemsize
    raw = bytearray(24 * width)
    raw[5 * width : 6 * width] = (1).to_bytes(width, "little") if dtype != "fp64" else np.float64(1).tobytes()
    one = in_file(tmp_path, "a", dtype, bytes(24 * width), (4, 6))
    two = in_file(tmp_path, "b", dtype, bytes(raw), (4, 6))
    delta = compared(one, two).rows[0].delta
    assert delta is not None
    smallest = {"fp8_e4m3": 2.0**-9, "fp8_e5m2": 2.0**-16}.get(dtype, 1.0)
    assert (delta.count, delta.changed, delta.where, delta.max_diff) == (24, 1, (0, 5), smallest)


def test_types_without_figures_are_counted(tmp_path: Path) -> None:
    raw = bytes(range(64))
    one = in_file(tmp_path, "a", "c64", raw, (8,))
    two = in_file(tmp_path, "b", "c64", raw[:-1] + b"\x00", (8,))
    delta = compared(one, two).rows[0].delta
    assert delta is not None
    assert (delta.count, delta.changed, delta.max_diff, delta.relative) == (8, 1, None, None)


def test_types_that_can_not_be_compared(tmp_path: Path) -> None:
    one, two = in_file(tmp_path, "a", "fp8_e4m3", bytes(8), (8,)), in_file(tmp_path, "b", "bf16", bytes(16), (8,))
    found = compared(one, two)
    assert states(found) == {"dtype": 1}
    assert found.rows[0].note == "fp8_e4m3 and bf16 are not compared in values"


def test_a_tensor_that_can_not_be_read_says_so(tmp_path: Path) -> None:
    one = models.save(tmp_path / "a", models.state("hf"), config=models.config())
    with open_checkpoint(one) as source:
        side = side_of_plan(understand(source))
        with (one / "model.safetensors").open("r+b") as file:
            file.truncate(40_000)
        found = compare(side, side, values=True)
    assert found.same is None
    assert {r.state for r in found.rows} >= {"unread"}
    assert all(r.note for r in found.rows if r.state == "unread")


# ---- ranks of a model, sections of a file


def test_a_section_beside_a_plain_file(tmp_path: Path) -> None:
    state = models.state("hf")
    plain = models.save(tmp_path / "a", state, config=models.config())
    nested = tmp_path / "b" / "last.ckpt"
    nested.parent.mkdir()
    nested.write_bytes(builders.state_dict_bytes({f"model._orig_mod.{k}": v for k, v in state.items()}, "state_dict"))
    with opened_sides(str(plain), str(nested), values=True) as (a, b):
        assert states(compare(a, b, values=True)) == {"equal": TOTAL}


# ---- quantised files


@pytest.mark.parametrize("kind", ["Q8_0", "Q4_0"])
def test_a_gguf_beside_what_it_was_made_of(tmp_path: Path, kind: str) -> None:
    """Blocks are decoded on the way, rows of q and k put back: what quantising has cost is told, tensor by tensor."""
    stored, expected = quantised.model("llama", kind)
    config = models.config(
        hidden_size=quantised.HIDDEN, num_attention_heads=quantised.HEADS, num_key_value_heads=quantised.KV,
        head_dim=quantised.HEAD_DIM, intermediate_size=quantised.WIDTH, vocab_size=quantised.VOCAB,
        num_hidden_layers=1, tie_word_embeddings=True,
    )  # fmt: skip
    with quantised.opened(tmp_path, stored, quantised.metadata()) as source:
        packed = understand(source)
        exact = compared(packed, models.plan(expected, config))
        assert exact.same is True
        key = "model.layers.0.self_attn.q_proj.weight"
        shifted = expected | {key: expected[key] + np.float32(0.5)}
        (row,) = [r for r in compared(packed, models.plan(shifted, config)).rows if r.state == "differs"]
        assert row.key == key
        assert row.delta is not None
        assert row.delta.max_diff == pytest.approx(0.5, rel=1e-3)


# ---- sparse files


@pytest.mark.parametrize(("at", "state"), [(None, "equal"), (5 << 20, "differs"), (0, "differs")])
def test_holes_that_both_have_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int | None, state: str
) -> None:
    data = builders.safetensors_bytes({"w": np.zeros((96, 16384), np.float32)})
    paths = [tmp_path / f"{name}.safetensors" for name in "ab"]
    for path in paths:
        ties.holes(path, data)
    if at is not None:
        with paths[1].open("r+b") as file:
            file.seek(len(data) - (6 << 20) + at)
            file.write(b"x")
    if HeldFile(paths[0]).next_data(1 << 20, 4 << 20) == 1 << 20:
        pytest.skip("this filesystem keeps no holes")
    read: list[int] = []
    plain = HeldFile.pread_into
    monkeypatch.setattr(HeldFile, "pread_into", lambda f, o, out: (read.append(len(out)), plain(f, o, out))[1])
    with opened_sides(*map(str, paths), values=True) as (a, b):
        found = compare(a, b, values=True, measured=False)
    assert states(found) == {state: 1}
    assert sum(read) < 7 << 20  # of 12: the first block, and the two that the page with the byte touches
