"""Weights stored as MXFP4 take the place of their codes and scales, under the name that they have when plain.

From here on the plan holds the weight: its shape is checked, its sizes count, every layout can be made of it. Only the
layout that stays the same gets codes and scales again (see `core/decoding`). All or nothing: where a single tensor of
codes has no scales that fit it, the finding that blocks stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ckpt_gui.core.entry import Entry
from ckpt_gui.core.exprs import chain, make, shape_of
from ckpt_gui.core.formats.quantised import decodable
from ckpt_gui.core.mxfp4_ops import DecodeMxfp4
from ckpt_gui.core.ops import Op
from ckpt_gui.core.plan import Plan
from ckpt_gui.core.shape_ops import Transpose
from ckpt_gui.core.tensors import TensorSpec
from ckpt_gui.dataclasses import dataclass

_OP = DecodeMxfp4()


@dataclass(frozen=True, slots=True)
class Spelling:
    """How a program names codes and scales.

    Attributes:
        codes: What it puts behind the plain name for the codes.
        scales: The same for the scales.
        plain: How the names of such weights end.
        beside: How the name of a tensor ends that only this family has: how others lie is not known.
        ops: What makes the plain tensor of the decoded one.
    """

    codes: str
    scales: str
    plain: tuple[str, ...]
    beside: str
    ops: tuple[Op, ...] = ()


# transformers 4.57 `integrations/mxfp4.py` has the weights that it computes with turned; OpenAI gpt-oss
# `gpt_oss/torch/weights.py` as they are stored.
SPELLINGS = (
    Spelling(
        "_blocks",
        "_scales",
        (".mlp.experts.gate_up_proj", ".mlp.experts.down_proj"),
        ".self_attn.sinks",
        (Transpose(),),
    ),
    Spelling(".blocks", ".scales", (".mlp.mlp1_weight", ".mlp.mlp2_weight"), ".attn.sinks"),
)


def decode_mxfp4(plan: Plan) -> Plan:
    """Return the plan with plain weights in place of MXFP4 codes and scales; the same one where not all have both."""
    wanted = {key for f in plan.findings if f.code == "quantised" for key in f.keys}
    if not wanted or plan.adapter is not None or plan.source.container == "gguf":
        return plan
    by_key = {e.key: e for e in plan.entries}
    known = [s for s in SPELLINGS if any(key.endswith(s.beside) for key in by_key)]
    made: dict[int, Entry] = {}
    used: set[int] = set()
    for codes in plan.entries:
        if (found := _pair(codes, by_key, known)) is not None:
            weight, scales = found
            made[id(codes)] = weight
            used.add(id(scales))
    if {e.ref.full_key for e in plan.entries if id(e) in made} != wanted:
        return plan
    entries = tuple(made.get(id(e), e) for e in plan.entries if id(e) not in used)
    findings = tuple(decodable(f) if f.code == "quantised" else f for f in plan.findings)
    return plan.replace(entries=entries, findings=findings)


def _pair(codes: Entry, by_key: Mapping[str, Entry], known: Sequence[Spelling]) -> tuple[Entry, Entry] | None:
    """Return the weight that codes stand for, and the entry of their scales; None if it is no weight known here."""
    for spelling in known:
        plain = codes.key.removesuffix(spelling.codes)
        scales = by_key.get(plain + spelling.scales)
        if plain == codes.key or not plain.endswith(spelling.plain) or scales is None or plain in by_key:
            continue
        types = (codes.output.dtype, scales.output.dtype)
        if types == ("u8", "u8") and _OP.fits(codes.output.shape, scales.output.shape):
            expr = chain(spelling.ops, make(_OP, codes.expr, scales.expr))
            return Entry(TensorSpec(plain, "bf16", shape_of(expr, {})), expr, codes.why), scales
    return None
