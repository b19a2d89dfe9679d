"""Where the user wants it, take each tensor from the shard that the folder's index names, and nothing else.

Copies of a tensor in other shards, and tensors that the index does not know, are leftovers of another save as a rule;
what transformers loads is what the index names.
"""

from __future__ import annotations

from ckpt_gui.core.errors import Finding
from ckpt_gui.core.plan import Dropped, Plan
from ckpt_gui.core.tensors import TensorRef

SETTLED = frozenset(("duplicate-tensor", "shard-unindexed"))


def use_assigned(plan: Plan) -> Plan:
    """Leave out the entries that the index does not assign to the file in which they lie."""
    if not plan.policy.assigned_only:
        return plan
    if not plan.source.assigned:
        text = "There is no index that says which shard each tensor is to be taken from."
        return plan.found(Finding("shard-unindexed", "error", text, fix="Leave out --assigned-only.", blocking=True))
    kept = tuple(entry for entry in plan.entries if _assigned(entry.ref, plan))
    dropped = tuple(_leave_out(entry.ref, plan) for entry in plan.entries if not _assigned(entry.ref, plan))
    findings = tuple(finding for finding in plan.findings if finding.code not in SETTLED)
    return plan.replace(entries=kept, dropped=(*plan.dropped, *dropped), findings=findings)


def _assigned(ref: TensorRef, plan: Plan) -> bool:
    return plan.source.assigned.get(ref.full_key) == ref.file


def _leave_out(ref: TensorRef, plan: Plan) -> Dropped:
    known = ref.full_key in plan.source.assigned
    reason = "lies in another shard than the index names" if known else "is not in the index"
    return Dropped(ref, reason, "unassigned", ref.key)
