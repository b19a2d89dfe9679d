"""From an opened checkpoint to a plan: run the passes; gather byte facts when asked.

`normalise` reads nothing. `probe` reads the two tensors of a pair whose bytes decide something, and can be cancelled;
its result goes into the next `normalise`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from ckpt_gui.core.errors import Cancelled
from ckpt_gui.core.passes import JUDGEMENT, NAMES_AND_SHAPES
from ckpt_gui.core.passes.ties import pair_key
from ckpt_gui.core.plan import Evidence, Plan, Policy, account
from ckpt_gui.core.tensors import Source

BLOCK = 1 << 20
Progress = Callable[[str, int, int], None]


def normalise(source: Source, policy: Policy | None = None, evidence: Evidence | None = None) -> Plan:
    """Return the plan of a checkpoint: what it is, what is wrong, and the model's tensors under their hub names.

    Args:
        source: An opened checkpoint.
        policy: The user's decisions.
        evidence: Byte facts from `probe`; without them a pair that lies apart counts as unchecked.
    """
    return _judge(_gather(source, policy), evidence or Evidence())


def _gather(source: Source, policy: Policy | None) -> Plan:
    """Run the passes that look at names and shapes."""
    start = Plan(source, policy or Policy(), findings=source.problems)
    return reduce(lambda plan, step: step(plan), NAMES_AND_SHAPES, start)


def _judge(plan: Plan, evidence: Evidence) -> Plan:
    """Run the passes that byte facts decide."""
    plan = reduce(lambda plan, step: step(plan), JUDGEMENT, plan.replace(evidence=evidence))
    account(plan)
    return plan


def probe(
    plan: Plan,
    *,
    budget: int | None = None,
    progress: Progress | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Evidence:
    """Compare the bytes of the pair of embedding and head, if they lie apart and nothing is known of them yet.

    Args:
        plan: A plan of the source.
        budget: Bytes that may be read at most; a longer pair stays unchecked.
        progress: Called with a label, bytes done and bytes in all.
        cancelled: Asked between blocks.

    Returns:
        The plan's evidence, with the new fact.

    Raises:
        Cancelled: `cancelled` said so.
        CheckpointError: The bytes can not be read.
    """
    tie = plan.tie
    if tie.state != "unchecked" or tie.embedding is None or tie.head is None:
        return plan.evidence
    total = tie.embedding.nbytes
    if budget is not None and 2 * total > budget:
        return plan.evidence
    left, right = bytearray(BLOCK), bytearray(BLOCK)
    equal = True
    for start in range(0, total, BLOCK):
        if cancelled and cancelled():
            raise Cancelled
        size = min(BLOCK, total - start)
        plan.source.read_into(tie.embedding, start, memoryview(left)[:size])
        plan.source.read_into(tie.head, start, memoryview(right)[:size])
        if left[:size] != right[:size]:
            equal = False
            break
        if progress:
            progress("Comparing the embedding with the output head", start + size, total)
    pair = pair_key(tie.embedding, tie.head)
    return Evidence({**plan.evidence.pairs, pair: "equal" if equal else "different"})


def understand(
    source: Source,
    policy: Policy | None = None,
    *,
    budget: int | None = None,
    progress: Progress | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Plan:
    """Normalise, probe what bytes must decide, and normalise again with what was seen."""
    gathered = _gather(source, policy)
    plan = _judge(gathered, Evidence())
    evidence = probe(plan, budget=budget, progress=progress, cancelled=cancelled)
    return plan if evidence is plan.evidence else _judge(gathered, evidence)
