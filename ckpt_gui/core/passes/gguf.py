"""GGUF files: family and layout by the architecture that they name, and quantised tensors decoded on their way."""

from __future__ import annotations

from ckpt_gui.core.entry import Entry
from ckpt_gui.core.errors import Finding
from ckpt_gui.core.exprs import make
from ckpt_gui.core.families.gguf import ROPE_FACTORS, gguf_layout, known_architectures
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.plan import Plan
from ckpt_gui.core.source import Blocks
from ckpt_gui.core.tensors import TensorSpec
from ckpt_gui.core.unpack_ops import Dequantise

ORIGIN = "the GGUF metadata"
_SCALINGS = ("none", "linear")  # what config.json says with no more than the factor that GGUF has


def detect_gguf(plan: Plan) -> Plan:
    """Set family and layout of a GGUF file; its config is there already."""
    plan = plan.replace(entries=tuple(_decoded(entry, plan.source.blocks.get(entry.ref.key)) for entry in plan.entries))
    arch = str((plan.source.config or {}).get("model_type", ""))
    found = gguf_layout(arch, plan.config.model_type if plan.config else None)
    if found is None:
        return plan.found(_unknown(arch))
    family, layout = found
    plan = plan.replace(family=family, layout=layout).explained(
        f"The GGUF metadata name the architecture {safe_text(arch, 40)}."
    )
    return plan.found(*_doubts(plan))


def _decoded(entry: Entry, blocks: Blocks | None) -> Entry:
    if blocks is None:
        return entry
    op = Dequantise(blocks)
    return Entry(TensorSpec(entry.key, "fp32", op.shape([entry.output.shape], {})), make(op, entry.expr), entry.why)


def _unknown(arch: str) -> Finding:
    known = ", ".join(known_architectures())
    text = f"This GGUF file is of the architecture {safe_text(arch, 40) or '(none)'}; names are known for {known} only."
    return Finding("unknown-layout", "error", text, fix="Take the model's original weights.", blocking=True)


def _doubts(plan: Plan) -> list[Finding]:
    """Return what the metadata alone do not tell."""
    found = []
    keys = {entry.key for entry in plan.entries}
    if any("_exps." in key for key in keys):
        text = "The feed-forward part is a mixture of experts, whose names in GGUF are not known here."
        found.append(Finding("unknown-layout", "error", text, fix="Take the original weights.", blocking=True))
    if plan.config is None or plan.config.origin != ORIGIN:
        return found
    kind = (plan.config.rope_scaling or {}).get("rope_type", "none")
    if ROPE_FACTORS in keys or kind not in _SCALINGS:
        how = f"by `{ROPE_FACTORS}`" if ROPE_FACTORS in keys else f"by the rule `{safe_text(str(kind), 40)}`"
        text = f"The rotary frequencies are scaled {how}, and GGUF does not say all that config.json must say of it."
        fix = "Give the model's own config.json with --config."
        found.append(Finding("unknown-layout", "error", text, fix=fix, blocking=True))
    return found
