"""What a fine-tune touched, rows folded into ranges, and the rank of what has changed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ckpt_gui.core.casts import cast
from ckpt_gui.core.compare import Row, Stored, by_layer, by_role, compare, fold, side_of_plan, with_ranks
from ckpt_gui.core.compare import rank as rank_module
from ckpt_gui.core.compare.summary import quantiles
from ckpt_gui.core.errors import Cancelled, CheckpointError
from ckpt_gui.core.folding import ranges
from tests.core import models

Q = "model.layers.0.self_attn.q_proj.weight"


def tuned(**config: Any) -> tuple[Any, Any]:
    """A model, and one in which q of layers 1 and 2 has been trained: by 1 % and by 2 %."""
    state = models.state("hf")
    more = {}
    for layer in (1, 2):
        key = f"model.layers.{layer}.self_attn.q_proj.weight"
        more[key] = state[key] * np.float32(1 + layer / 100)
    return (side_of_plan(models.plan(s, models.config(**config))) for s in (state, state | more))


def test_what_did_the_fine_tune_touch() -> None:
    found = compare(*tuned(), values=True)
    assert dict(found.counts) == {"equal": len(models.names("hf")) - 2, "differs": 2}
    roles = {c.name: c for c in by_role(found.rows)}
    query = roles["model.layers.N.self_attn.q_proj.weight"]
    assert (query.tensors, query.different) == (3, 2)
    assert query.relative == pytest.approx((0, 0.005, 0.01, 0.015, 0.02), rel=1e-4)
    assert query.share == pytest.approx(2 / 3)
    assert [c.name for c in by_role(found.rows) if c.different] == [query.name]
    layers = by_layer(found.rows)
    assert [(c.name, c.different) for c in layers] == [
        ("model.layers.0", 0), ("model.layers.1", 1), ("model.layers.2", 1),
    ]  # fmt: skip
    assert layers[2].relative[-1] == pytest.approx(0.02, rel=1e-4)


def test_names_alone_tell_no_change() -> None:
    found = compare(*tuned())
    assert {(c.relative, c.share, c.different) for c in by_role(found.rows)} == {((), None, 0)}


def test_quantiles_lie_between_neighbours() -> None:
    assert quantiles([]) == ()
    assert quantiles([3.0]) == (3.0,) * 5
    assert quantiles([1.0, 2.0]) == (1.0, 1.25, 1.5, 1.75, 2.0)


# ---- folding


def rows(*keys: str, state: Any = "only-a", shape: tuple[int, ...] = (2,)) -> list[Row]:
    return [Row(key, state, Stored(key, shape, "bf16")) for key in keys]


def folded(given: list[Row]) -> list[tuple[str, int]]:
    found = fold(given)
    assert sorted(r.key for f in found for r in f.rows) == sorted(r.key for r in given), "each row stands once"
    return [(f.key, len(f.rows)) for f in found]


def test_layers_that_are_alike_are_one_line() -> None:
    assert folded(rows(*(f"m.{n}.w" for n in range(12)), "head")) == [("head", 1), ("m.0-11.w", 12)]
    assert folded(rows(*(f"m.{n}.w" for n in (0, 1, 2, 5, 9, 8)))) == [("m.{0-2,5,8-9}.w", 6)]
    assert folded(rows("m.0.w", "m.1.w") + rows("m.2.w", state="differs")) == [("m.0-1.w", 2), ("m.2.w", 1)]
    assert folded(rows("m.0.w") + rows("m.1.w", shape=(3,))) == [("m.0.w", 1), ("m.1.w", 1)]


def test_experts_fold_only_where_each_layer_has_the_same() -> None:
    whole = [f"m.{n}.e.{e}.w" for n in range(3) for e in range(4)]
    assert folded(rows(*whole)) == [("m.0-2.e.0-3.w", 12)]
    assert folded(rows(*whole[:-1])) == [("m.0-1.e.0-3.w", 8), ("m.2.e.0-2.w", 3)]


def test_names_of_both_sides_are_folded() -> None:
    both = [
        Row(f"hub.{n}.w", "differs", Stored(f"a.{n}.w", (2,), "bf16"), Stored(f"b.fused.{n}", (2,), "bf16"))
        for n in range(2)
    ]
    (one,) = fold(both)
    assert (one.key, one.a, one.b) == ("hub.0-1.w", "a.0-1.w", "b.fused.0-1")


def test_braces_in_names_stay() -> None:
    assert folded(rows("a.{}.0.w", "a.{}.1.w")) == [("a.{}.0-1.w", 2)]


def test_many_ranges_are_counted() -> None:
    assert ranges(list(range(0, 40, 2))) == "{0,2,4,6,8,10,… 20 in all}"


# ---- ranks


def changed(shape: tuple[int, int], rank: int, dtype: str, size: float = 0.05, seed: int = 1) -> Any:
    """A matrix, and the same with a product of two thin ones added, both rounded to a type."""
    rng = np.random.default_rng(seed)
    weight = rounded(rng.normal(0, 0.05, shape), dtype)
    change = rng.normal(0, size, (shape[0], rank)) @ rng.normal(0, size, (rank, shape[1]))
    two = rounded(weight + change, dtype)
    sides = (side_of_plan(models.plan({"w": x.astype(np.float32)})) for x in (weight, two))
    return compare(*sides, values=True)


def rounded(x: np.ndarray, dtype: str) -> np.ndarray:
    """Values as the type has them, in fp64."""
    raw = np.ascontiguousarray(x, dtype=np.float32).reshape(-1).view(np.uint8)
    back = cast(cast(raw, "fp32", dtype)[0], dtype, "fp32")[0].view(np.float32)
    return back.reshape(x.shape).astype(np.float64)


@pytest.mark.parametrize("rank", [1, 8, 33])
@pytest.mark.parametrize("exact", [True, False])
def test_the_rank_of_a_merged_adapter(monkeypatch: pytest.MonkeyPatch, rank: int, exact: bool) -> None:
    if not exact:
        monkeypatch.setattr(rank_module, "EXACT", 0)
    found = changed((240, 130), rank, "fp32")
    (one,) = with_ranks(found, found.rows).ranks
    assert (one.rank, one.at_least, one.shape, one.key) == (rank, False, (240, 130), "w")
    assert one.energy == pytest.approx(1, abs=1e-6)
    assert ("exact" in one.method) == exact
    assert with_ranks(found, found.rows).ranks == (one,), "the same answer every time"


def test_rounding_to_bf16_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """The file says bf16: what rounding adds has full rank, and lies below the tolerance."""
    rng = np.random.default_rng(3)
    weight = rounded(rng.normal(0, 0.05, (256, 192)), "bf16")
    change = rng.normal(0, 0.05, (256, 8)) @ rng.normal(0, 0.05, (8, 192))
    monkeypatch.setitem(rank_module._MANTISSA, "fp32", 7)  # the test's builder writes fp32 alone
    two = rounded(weight + change, "bf16")
    found = compare(*(side_of_plan(models.plan({"w": x.astype(np.float32)})) for x in (weight, two)), values=True)
    (one,) = with_ranks(found, found.rows).ranks
    assert one.rank == 8
    true = np.linalg.svd(two - weight, compute_uv=False)
    assert one.singular == pytest.approx(tuple(true[:128]), rel=1e-9)
    assert true[8] < one.tolerance < true[7]


def test_more_directions_than_are_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rank_module, "EXACT", 0)
    monkeypatch.setattr(rank_module, "SHOWN", 20)
    found = changed((90, 80), 60, "fp32")
    (one,) = with_ranks(found, found.rows).ranks
    assert (one.rank, one.at_least) == (20, True)


def test_no_change_has_no_rank() -> None:
    state = {"w": np.ones((4, 3), np.float32)}
    found = compare(*(side_of_plan(models.plan(state)) for _ in range(2)), values=True)
    (one,) = with_ranks(found, found.rows).ranks
    assert (one.rank, one.at_least, one.energy) == (0, False, 1.0)


def test_what_has_no_rank_is_refused() -> None:
    plans = [models.plan({"w": np.ones((4, 3), np.float32), "v": np.ones(k, np.float32)}) for k in (3, 4)]
    found = compare(*map(side_of_plan, plans))
    with pytest.raises(CheckpointError, match="not on both sides in one shape"):
        with_ranks(found, [r for r in found.rows if r.key == "v"])
    same = compare(side_of_plan(plans[0]), side_of_plan(plans[0]))
    with pytest.raises(CheckpointError, match="no matrix"):
        with_ranks(same, [r for r in same.rows if r.key == "v"])
    with pytest.raises(Cancelled):
        with_ranks(found, [r for r in found.rows if r.key == "w"], cancelled=lambda: True)
