"""Reports as JSON of schema 1: `check --json`, `fix --report FILE.json`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from ckpt_gui.core.adapters import Adapter
from ckpt_gui.core.entry import Entry
from ckpt_gui.core.errors import CheckpointError, Finding, worst_first
from ckpt_gui.core.plan import Plan, Step, Tie
from ckpt_gui.core.report.facts import facts, status

if TYPE_CHECKING:
    from ckpt_gui.core.against import Against
    from ckpt_gui.core.export import Export
    from ckpt_gui.core.scan import Scan

SCHEMA = 1
MOST_KEYS = 20
Outcome = Literal["written", "refused", "failed", "possible"]


def check_json(plan: Plan, beside: Against | None = None, scanned: Scan | None = None) -> dict[str, Any]:
    """Return what `check --json` prints (schema 1), with what a reference and a scan of the values say, if any."""
    numbers, adapter = facts(plan), plan.adapter or plan.merged
    found: dict[str, Any] = {
        "schema": SCHEMA,
        "path": plan.source.path,
        "status": status(plan),
        "container": plan.source.container,
        "layout": plan.layout.name if plan.layout else None,
        "family": plan.family.name if plan.family else None,
        "dims": dict(plan.dims),
        "section": list(plan.section),
        "wrappers": list(plan.wrappers),
        "files": [file.name for file in plan.source.files],
        "tensors": numbers.tensors,
        "parameters": numbers.parameters,
        "bytes": numbers.nbytes,
        "dtypes": dict(numbers.dtypes),
        "tied": _tie_json(plan.tie),
        "findings": [finding_json(f) for f in worst_first(plan.findings)],
    }
    found |= {"adapter": adapter_json(adapter)} if adapter else {}
    found |= {"against": _against_json(beside)} if beside else {}
    return found | ({"values": _scan_json(scanned)} if scanned else {})


def _scan_json(numbers: Scan) -> dict[str, Any]:
    return {
        "tensors": len(numbers.tensors),
        "bytes": numbers.done,
        "parameters": numbers.parameters,
        "parameters_with_aliases": numbers.parameters_stored,
        "places": [
            {"key": t.ref.full_key, "index": list(place.index), "value": place.value}
            for t in numbers.tensors
            for place in t.odd
        ],
        "rows": [
            {"key": t.ref.full_key, "kind": rows.kind, "count": rows.count, "rows": list(rows.first[:MOST_KEYS])}
            for t in numbers.tensors
            for rows in t.rows
        ],
    }


def adapter_json(adapter: Adapter) -> dict[str, Any]:
    """Return what is known of an adapter: rank, alpha and scale of every module."""
    return {
        "style": adapter.style,
        "kind": adapter.kind,
        "merged_into": "the weights beside it" if adapter.inside else None,
        "rslora": adapter.config.get("use_rslora") is True,
        "targets": list(dict.fromkeys(lora.module.rpartition(".")[2] for lora in adapter.loras)),
        "whole": [] if adapter.inside else list(adapter.whole),
        "tokens": [{"module": t.module, "rows": t.indices} for t in adapter.tokens],
        "modules": [
            {
                "module": x.module, "rank": x.rank, "alpha": x.alpha, "scale": x.scale, "dora": x.lengths is not None,
            }
            for x in adapter.loras
        ],
    }  # fmt: skip


def _against_json(beside: Against) -> dict[str, Any]:
    names = {"only-a": "extra", "only-b": "missing"}  # as they look from the checkpoint that is checked
    rows = [row for row in beside.rows if row.state not in ("equal", "fits")]
    return {
        "name": beside.name,
        "kind": beside.kind,
        "counts": {names.get(state, state): count for state, count in beside.counts.items()},
        "rows": [
            {
                "key": row.key, "state": names.get(row.state, row.state),
                "ours": row.a.key if row.a else "", "theirs": row.b.key if row.b else "",
                "shape": list(row.a.shape) if row.a else None, "wanted": list(row.b.shape) if row.b else None,
                "dtype": row.a.dtype if row.a else "", "wanted_dtype": row.b.dtype if row.b else "", "note": row.note,
            }
            for row in rows
        ],
    }  # fmt: skip


def _tie_json(tie: Tie) -> dict[str, Any]:
    return {
        "flag": tie.flag,
        "embedding": tie.embedding.key if tie.embedding else None,
        "head": tie.head.key if tie.head else None,
        "state": tie.state,
    }


def finding_json(finding: Finding) -> dict[str, Any]:
    """Return a finding as schema 1 has it: the first 20 keys, and how many there are."""
    return {
        "code": finding.code,
        "severity": finding.severity,
        "message": finding.message,
        "keys": list(finding.keys[:MOST_KEYS]),
        "count": len(finding.keys),
        "fix": finding.fix,
    }


def failure_json(path: str, error: CheckpointError) -> dict[str, Any]:
    """Return what `check --json` prints of a path in which no tensor can be listed."""
    return {
        "schema": SCHEMA, "path": path, "status": "unreadable", "container": None, "layout": None, "family": None,
        "dims": {}, "section": [], "wrappers": [], "files": [], "tensors": 0, "parameters": 0, "bytes": 0,
        "dtypes": {}, "tied": _tie_json(Tie()), "findings": [finding_json(error.as_finding())],
    }  # fmt: skip


def export_json(export: Export, outcome: Outcome, result: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return what `fix --report FILE.json` writes: the plan of an export and how it ended."""
    target = export.target
    return {
        "schema": SCHEMA,
        "path": export.plan.source.path,
        "outcome": outcome,
        "target": {"layout": target.layout, "container": export.container, "dtype": target.dtype},
        "bytes": export.nbytes,
        "steps": [_step_json(step) for step in export.steps],
        "tensors": [_entry_json(entry, export) for entry in export.entries],
        "dropped": [{"key": d.ref.full_key, "kind": d.kind, "reason": d.reason} for d in export.dropped],
        "beside": [d.ref.full_key for d in export.beside],
        "left_out": list(export.left_out),
        "files": [*export.texts, *export.carried],
        "findings": [finding_json(f) for f in worst_first(export.findings)],
        "result": dict(result) if result else None,
    }


def _entry_json(entry: Entry, export: Export) -> dict[str, Any]:
    return {
        "from": [ref.full_key for ref in entry.inputs],
        "to": entry.key,
        "ops": [op.describe(export.plan.dims) for op in entry.ops],
    }


def _step_json(step: Step) -> dict[str, Any]:
    return {
        "id": step.id, "title": step.title, "count": step.count, "evidence": step.evidence,
        "changes_values": step.changes_values, "certain": step.certain,
    }  # fmt: skip
