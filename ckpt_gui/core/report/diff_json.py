"""`diff --json`: two checkpoints beside each other, schema 1 (see the README)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ckpt_gui.core.compare import Change, Comparison, Delta, RankEstimate, Row, Side, Stored, by_layer, by_role
from ckpt_gui.core.errors import CheckpointError, Finding
from ckpt_gui.core.report.as_json import SCHEMA, finding_json


def diff_json(compared: Comparison, rows: Sequence[Row], findings: Sequence[Finding]) -> dict[str, Any]:
    """Return what `diff --json` prints.

    Args:
        compared: The comparison; counts and summary are those of all its rows.
        rows: The rows to be listed.
        findings: What the comparison has found.
    """
    return {
        "schema": SCHEMA,
        "a": _side(compared.a),
        "b": _side(compared.b),
        "same": compared.same,
        "values": compared.values,
        "stopped": compared.stopped,
        "counts": dict(compared.counts),
        "rows": [_row(row) for row in rows],
        "by_role": [_change(c) for c in by_role(compared.rows)] if compared.values else [],
        "by_layer": [_change(c) for c in by_layer(compared.rows)] if compared.values else [],
        "config": [{"name": c.name, "a": c.a, "b": c.b} for c in compared.config],
        "ranks": [_rank(r) for r in compared.ranks],
        "findings": [finding_json(f) for f in findings],
    }


def diff_failure_json(a: str, b: str, error: CheckpointError) -> dict[str, Any]:
    """Return what `diff --json` prints where one side can not be read: the same fields, empty."""
    return {
        "schema": SCHEMA, "a": {"name": a}, "b": {"name": b}, "same": None, "values": False, "stopped": False,
        "counts": {}, "rows": [], "by_role": [], "by_layer": [], "config": [], "ranks": [],
        "findings": [finding_json(error.as_finding())],
    }  # fmt: skip


def _side(side: Side) -> dict[str, Any]:
    return {
        "name": side.name, "kind": side.kind, "family": side.family.name if side.family else None,
        "layout": side.layout or None, "tied": side.tied, "tensors": len(side.tensors),
    }  # fmt: skip


def _row(row: Row) -> dict[str, Any]:
    return {
        "key": row.key, "state": row.state, "how": row.how, "order": row.order or None,
        "a": _stored(row.a), "b": _stored(row.b), "delta": _delta(row.delta), "note": row.note,
    }  # fmt: skip


def _stored(stored: Stored | None) -> dict[str, Any] | None:
    return {"key": stored.key, "shape": list(stored.shape), "dtype": stored.dtype or None} if stored else None


def _delta(delta: Delta | None) -> dict[str, Any] | None:
    if delta is None:
        return None
    return {
        "elements": delta.count, "changed": delta.changed, "not_finite": delta.skipped, "max": delta.max_diff,
        "where": list(delta.where) if delta.where else None, "norm": delta.norm, "norm_a": delta.norm_a,
        "norm_b": delta.norm_b, "relative": delta.relative,
    }  # fmt: skip


def _change(change: Change) -> dict[str, Any]:
    return {
        "name": change.name, "tensors": change.tensors, "different": change.different,
        "relative": list(change.relative) or None, "share": change.share,
    }  # fmt: skip


def _rank(rank: RankEstimate) -> dict[str, Any]:
    return {
        "key": rank.key, "shape": list(rank.shape), "rank": rank.rank, "at_least": rank.at_least,
        "tolerance": rank.tolerance, "energy": rank.energy, "singular": list(rank.singular), "method": rank.method,
    }  # fmt: skip
