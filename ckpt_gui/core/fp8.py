"""FP8 weights with a scale for each block (DeepSeek, Qwen): decoded on the way to any other layout.

Each code is a number of the type E4M3, each block of 128 × 128 of them has a factor in a tensor called
`…weight_scale_inv`. The product is taken in fp32 and rounded once, as DeepSeek's own `fp8_cast_bf16.py` and
transformers do it before they cast. In the layout that it has, such a model stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping

from ckpt_gui.core.decoding import QUANTISED, as_plain
from ckpt_gui.core.entry import Entry
from ckpt_gui.core.exprs import Expr, Made, leaves, make
from ckpt_gui.core.formats.quantised import decodable
from ckpt_gui.core.plan import Plan
from ckpt_gui.core.tensors import TensorRef, TensorSpec
from ckpt_gui.core.unpack_ops import ScaleBlocks

SCALE, CODES = "_scale_inv", "fp8_e4m3"


def with_plain_weights(plan: Plan) -> Plan:
    """Return the plan with its FP8 weights decoded; the same one where the config does not say in which blocks.

    All or nothing: where a single weight has no scales that fit it, the finding that blocks stays.
    """
    pairs = _pairs(plan)
    if pairs is None:
        return plan
    op, found, used = pairs
    unmapped = tuple(_decoded(e, op, found) for e in plan.unmapped if id(e.ref) not in used)
    entries = tuple(_decoded(e, op, found) for e in plan.entries)
    return as_plain(plan.replace(entries=entries, unmapped=unmapped), "fp32")


def tell_decodable(plan: Plan) -> Plan:
    """Return the plan with FP8 weights as something that an export mends, where it can decode them."""
    if not any(f.code == "quantised" and f.blocking for f in plan.findings) or _pairs(plan) is None:
        return plan
    return plan.replace(findings=tuple(decodable(f) if f.code == "quantised" else f for f in plan.findings))


def _pairs(plan: Plan) -> tuple[ScaleBlocks, dict[int, TensorRef], set[int]] | None:
    """Return the op, the scales by the identity of their codes, and their identities; None if a weight has none."""
    block = _block(plan)
    codes = [e for e in plan.weights if any(ref.dtype == CODES for ref in e.inputs)] if block else []
    if block is None or not codes:
        return None
    scales = {e.ref.path: e for e in plan.unmapped if e.key.endswith(SCALE) and isinstance(e.expr, TensorRef)}
    pairs = {
        id(ref): scales.get((*ref.section, ref.key + SCALE)) for e in codes for ref in e.inputs if ref.dtype == CODES
    }
    found = {key: scale.ref for key, scale in pairs.items() if scale is not None}
    op = ScaleBlocks(*block)
    refs = {id(ref): ref for e in codes for ref in leaves(e.expr)}
    if len(found) < len(pairs) or not all(op.fits(refs[key].shape, scale.shape) for key, scale in found.items()):
        return None
    return op, found, {id(scale) for scale in found.values()}


def _block(plan: Plan) -> tuple[int, int] | None:
    said = plan.config.raw.get(QUANTISED) if plan.config and plan.config.is_hf else None
    size = said.get("weight_block_size") if isinstance(said, Mapping) and said.get("quant_method") == "fp8" else None
    good = isinstance(size, list) and len(size) == 2 and all(type(n) is int and 0 < n <= 1 << 16 for n in size)
    return (size[0], size[1]) if good and isinstance(size, list) else None


def _decoded(entry: Entry, op: ScaleBlocks, scales: Mapping[int, TensorRef]) -> Entry:
    if not any(id(ref) in scales for ref in entry.inputs):
        return entry
    return Entry(TensorSpec(entry.key, "fp32", entry.output.shape), _over(entry.expr, op, scales), entry.why)


def _over(expr: Expr, op: ScaleBlocks, scales: Mapping[int, TensorRef]) -> Expr:
    """Return an expression with the op over each of its FP8 leaves."""
    if isinstance(expr, TensorRef):
        return make(op, expr, scales[id(expr)]) if id(expr) in scales else expr
    return Made(expr.op, tuple(_over(part, op, scales) for part in expr.parts))
