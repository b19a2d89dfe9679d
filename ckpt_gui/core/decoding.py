"""What an export makes of weights that the plan has decoded: plain ones, or the codes again where nothing changes.

FP8 (see `fp8`) and MXFP4 (see `passes/mxfp4`) have in common what is then said, and that the config no longer names the
scheme.
"""

from __future__ import annotations

from ckpt_gui import dataclasses
from ckpt_gui.core.entry import Entry, carried, changing
from ckpt_gui.core.errors import Finding
from ckpt_gui.core.mxfp4_ops import DecodeMxfp4
from ckpt_gui.core.passes.expectation import stored_name
from ckpt_gui.core.passes.mxfp4 import SPELLINGS
from ckpt_gui.core.plan import Plan

QUANTISED = "quantization_config"


def as_plain(plan: Plan, dtype: str) -> Plan:
    """Return a plan whose codes are decoded as that of a plain model: its config names no scheme, nothing blocks."""
    config = plan.config
    if config is not None:
        raw = {name: value for name, value in config.raw.items() if name != QUANTISED}
        config = dataclasses.replace(config, raw=raw)
    findings = tuple(_settled(f, dtype) if f.code == "quantised" else f for f in plan.findings)
    return plan.replace(config=config, findings=findings)


def with_plain_mxfp4(plan: Plan) -> Plan:
    """Return the plan as that of a plain model if its MXFP4 weights are decoded; else the same one."""
    return as_plain(plan, "bf16") if any(map(_is_mxfp4, changing(plan.entries))) else plan


def with_codes(plan: Plan) -> Plan:
    """Return the plan with MXFP4 codes and scales as they are stored, for an export that changes none."""
    if not any(map(_is_stored, changing(plan.weights))):
        return plan
    return plan.replace(entries=_coded(plan, plan.entries), unmapped=_coded(plan, plan.unmapped))


def _coded(plan: Plan, entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
    return tuple(one for e in entries for one in (_parts(plan, e) if _is_stored(e) else (e,)))


def _parts(plan: Plan, entry: Entry) -> tuple[Entry, Entry]:
    """Return codes and scales under their names without wrappers."""
    codes, scales = entry.inputs
    spelling = next(s for s in SPELLINGS if codes.key.endswith(s.codes))
    plain = stored_name(plan.layout, entry.key) if plan.layout else entry.key
    why = "kept as it is"
    return carried(codes, plain + spelling.codes, why), carried(scales, plain + spelling.scales, why)


def _is_mxfp4(entry: Entry) -> bool:
    return any(isinstance(op, DecodeMxfp4) for op in entry.ops)


def _is_stored(entry: Entry) -> bool:
    """Return True if a weight is no more than what codes and scales stand for: no adapter is in it."""
    return _is_mxfp4(entry) and all(op.name in ("dequantise", "transpose") for op in entry.ops)


def _settled(finding: Finding, dtype: str) -> Finding:
    fix = f"The export holds the numbers that codes and scales stand for, as {dtype}"
    fix += "." if dtype == "bf16" else "; --dtype bf16 halves them."
    return finding.replace(severity="info", blocking=False, fix=fix)
