"""A comparison from the plain values in which it was kept: every field is given its type again."""

from __future__ import annotations

from typing import Any

from ckpt_gui.core.stats.figures import PairStats, RowDifferences, TensorStats
from ckpt_gui.core.tensors import TensorRef


def pair_of(plain: dict[str, Any], a: TensorRef, b: TensorRef) -> PairStats:
    """Return a comparison.

    Args:
        plain: What `dataclasses.asdict` made of it, after JSON.
        a: The first tensor: the entry must be of its type and shape.
        b: The second.

    Raises:
        ValueError, TypeError, KeyError: That can not have come from one of these tensors.
    """
    rows = plain["rows"]
    values = plain | {
        "a": _stats_of(plain["a"], a),
        "b": _stats_of(plain["b"], b),
        "where": None if plain["where"] is None else tuple(plain["where"]),
        "edges": tuple(plain["edges"]),
        "hist_a": tuple(plain["hist_a"]),
        "hist_b": tuple(plain["hist_b"]),
        "rows": RowDifferences(**rows | {name: tuple(rows[name]) for name in ("rows", "values", "first")}),
    }
    return PairStats(**values)


def _stats_of(plain: dict[str, Any], ref: TensorRef) -> TensorStats:
    if (plain["key"], plain["dtype"], tuple(plain["shape"])) != (ref.key, ref.dtype, ref.shape) or plain["histogram"]:
        raise ValueError("the figures are not those of this tensor")
    quantiles = tuple((share, value) for share, value in plain["quantiles"])
    return TensorStats(**plain | {"shape": ref.shape, "quantiles": quantiles, "fits": tuple(plain["fits"])})
