"""From an opened checkpoint to a plan: run the passes; gather byte facts when asked.

`normalise` reads nothing. `probe` reads the tensors whose bytes decide something (the pair of embedding and head, and
what tensor-parallel ranks hold alike), and can be cancelled; its result goes into the next `normalise`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import reduce

from ckpt_gui import dataclasses
from ckpt_gui.core.entry import Entry
from ckpt_gui.core.errors import Cancelled
from ckpt_gui.core.exprs import Made, stream_of
from ckpt_gui.core.families import generic
from ckpt_gui.core.fp8 import tell_decodable
from ckpt_gui.core.ops import RefStream, read_any
from ckpt_gui.core.passes import JUDGEMENT, NAMES_AND_SHAPES
from ckpt_gui.core.passes.detect import lacks_table
from ckpt_gui.core.passes.ties import judge_ties, pair_key
from ckpt_gui.core.plan import Evidence, Plan, Replica, TieName, account
from ckpt_gui.core.policy import Policy
from ckpt_gui.core.remote.address import is_url
from ckpt_gui.core.source import Source
from ckpt_gui.core.tensors import TensorRef
from ckpt_gui.core.tile_rows import look_at_rows

BLOCK = 1 << 20
REMOTE_BUDGET = 64 << 20  # bytes of values that are fetched without being asked for
Progress = Callable[[str, int, int], None]
IsCancelled = Callable[[], bool]


def normalise(source: Source, policy: Policy | None = None, evidence: Evidence | None = None) -> Plan:
    """Return the plan of a checkpoint: what it is, what is wrong, and the model's tensors under their hub names.

    Args:
        source: An opened checkpoint.
        policy: The user's decisions.
        evidence: Byte facts from `probe`; without them a pair that lies apart counts as unchecked.
    """
    facts = evidence or Evidence()
    return _judge(_gather(source, policy, facts), facts)


def _gather(source: Source, policy: Policy | None, evidence: Evidence, cancelled: IsCancelled | None = None) -> Plan:
    """Run the passes that look at names and shapes; `cancelled` is asked between them."""
    plan = Plan(source, policy or Policy(), evidence, findings=source.problems)
    for step in NAMES_AND_SHAPES:
        if cancelled and cancelled():
            raise Cancelled
        plan = step(plan)
    return plan


def _judge(plan: Plan, evidence: Evidence) -> Plan:
    """Run the passes that byte facts decide."""
    plan = reduce(lambda plan, step: step(plan), JUDGEMENT, plan.replace(evidence=evidence))
    account(plan)
    return tell_decodable(plan)


def unasked(source: Source, budget: int | None, local: int | None = None) -> int | None:
    """Return how many bytes of values may be read without being asked for: few of them over a network.

    Args:
        source: The checkpoint.
        budget: What the user allows; None if nothing was said.
        local: What is read from a disk then; None for all.
    """
    if budget is not None:
        return budget
    return REMOTE_BUDGET if is_url(source.path) else local


def probe(
    plan: Plan,
    *,
    budget: int | None = None,
    progress: Progress | None = None,
    cancelled: IsCancelled | None = None,
) -> Evidence:
    """Compare bytes that decide something and of which nothing is known yet: the tied pair, and copies among ranks.

    Args:
        plan: A plan of the source.
        budget: Bytes that may be read at most; what is longer stays unchecked.
        progress: Called with a label, bytes done and bytes in all.
        cancelled: Asked between blocks.

    Returns:
        The plan's evidence, with the new facts.

    Raises:
        Cancelled: `cancelled` said so.
        CheckpointError: The bytes can not be read.
    """
    plan = _ask_transformers(plan, progress, cancelled)
    evidence = _probe_pair(plan, budget, progress, cancelled)
    if (rows := look_at_rows(plan, budget, cancelled)) != evidence.rows:
        evidence = dataclasses.replace(evidence, rows=rows)
    return _probe_ranks(plan, evidence, budget, progress, cancelled) if plan.source.ranks else evidence


def _ask_transformers(plan: Plan, progress: Progress | None, cancelled: IsCancelled | None) -> Plan:
    """Have transformers say what it writes for a config whose family has no table, if it is installed."""
    if plan.config is None or plan.evidence.saved is not None or not lacks_table(plan) or not generic.available():
        return plan
    label = "Asking transformers for the layout; the answer is kept"
    if progress:
        progress(label, 0, 1)
    told = None if progress is None else lambda seconds: progress(f"{label} ({seconds:.0f} s)", 0, 1)
    saved = generic.saved_for(plan.config.raw, cancelled, told)
    return normalise(plan.source, plan.policy, dataclasses.replace(plan.evidence, saved=saved))


def _probe_pair(plan: Plan, budget: int | None, progress: Progress | None, cancelled: IsCancelled | None) -> Evidence:
    tie = plan.tie
    if tie.state != "unchecked" or tie.embedding is None or tie.head is None:
        return plan.evidence
    if tie.embedding.is_endless or tie.head.is_endless:
        return plan.evidence
    sides = [next((e for e in plan.entries if e.ref is ref), None) for ref in (tie.embedding, tie.head)]
    if any(e is not None and isinstance(e.expr, Made) for e in sides):
        return _probe_made(plan, [e for e in sides if e], budget, cancelled)
    total = tie.embedding.nbytes
    if budget is not None and 2 * total > budget:
        return plan.evidence
    equal = _equal(plan.source, tie.embedding, tie.head, progress, cancelled)
    return _with_pair(plan, equal)


def _with_pair(plan: Plan, equal: bool) -> Evidence:
    assert plan.tie.embedding is not None
    assert plan.tie.head is not None
    pairs = {**plan.evidence.pairs, pair_key(plan.tie.embedding, plan.tie.head): _word(equal)}
    return dataclasses.replace(plan.evidence, pairs=pairs)


def _word(equal: bool) -> TieName:
    return "equal" if equal else "different"


def _equal(
    source: Source, one: TensorRef, other: TensorRef, progress: Progress | None, cancelled: IsCancelled | None
) -> bool:
    """Compare two stored tensors of equal length, block by block, up to the first difference.

    Holes that both have in common are zeros in both, and are not read.

    Raises:
        Cancelled: `cancelled` said so.
        CheckpointError: The bytes can not be read, or one is an endless view.
    """
    one.refuse_endless()
    other.refuse_endless()
    left, right = bytearray(BLOCK), bytearray(BLOCK)
    start = 0
    while start < one.nbytes:
        if cancelled and cancelled():
            raise Cancelled
        if (data := min(source.next_data(one, start), source.next_data(other, start))) > start:
            start = data
            continue
        size = min(BLOCK, one.nbytes - start)
        source.read_into(one, start, memoryview(left)[:size])
        source.read_into(other, start, memoryview(right)[:size])
        if left[:size] != right[:size]:
            return False
        start += size
        if progress:
            progress("Comparing the embedding with the output head", start, one.nbytes)
    return True


def _probe_made(plan: Plan, sides: Sequence[Entry], budget: int | None, cancelled: IsCancelled | None) -> Evidence:
    """Compare a pair that is put together of parts."""
    import numpy as np

    total = sides[0].output.nbytes
    if budget is not None and 2 * total > budget:
        return plan.evidence
    streams = [stream_of(e.expr, plan.dims, lambda ref: RefStream(plan.source, ref)) for e in sides]
    blocks = [np.empty(BLOCK, np.uint8) for _ in streams]
    for start in range(0, total, BLOCK):
        if cancelled and cancelled():
            raise Cancelled
        size = min(BLOCK, total - start)
        for stream, block in zip(streams, blocks, strict=True):
            read_any(stream, start, block[:size])
        if blocks[0][:size].tobytes() != blocks[1][:size].tobytes():
            return _with_pair(plan, False)
    return _with_pair(plan, True)


def _probe_ranks(
    plan: Plan, evidence: Evidence, budget: int | None, progress: Progress | None, cancelled: IsCancelled | None
) -> Evidence:
    """Compare what several ranks hold, and see whether neighbours hold the same key/value heads."""
    repeat = evidence.repeat or (_find_repeat(plan, budget, cancelled) if plan.shared else 0)
    if repeat > 1 and not evidence.repeat:  # the ranks hold other tensors than it seemed
        plan = normalise(plan.source, plan.policy, dataclasses.replace(evidence, repeat=repeat))
    facts = dict(evidence.replicas)
    waiting = [r for r in plan.replicas if r.name not in facts]
    total, done = sum(r.kept.nbytes * (1 + len(r.copies)) for r in waiting), 0
    for replica in waiting if budget is None or total <= budget else []:
        facts[replica.name] = _word(all(_equal(plan.source, *pair, None, cancelled) for pair in _pairs(replica)))
        done += replica.kept.nbytes * (1 + len(replica.copies))
        if progress:
            progress("Comparing what the ranks hold alike", done, total)
    return (
        dataclasses.replace(evidence, replicas=facts, repeat=repeat)
        if facts != evidence.replicas or repeat
        else evidence
    )


def _pairs(replica: Replica) -> Iterator[tuple[TensorRef, TensorRef]]:
    return ((replica.kept, copy) for copy in replica.copies)


def _find_repeat(plan: Plan, budget: int | None, cancelled: IsCancelled | None) -> int:
    """Return how many neighbours hold the same key/value heads: those of the first tensor tell, all must agree."""
    first = plan.shared[0]
    alike = 1
    while alike < len(first) and _equal(plan.source, first[0], first[alike], None, cancelled):
        alike += 1
    total = sum(ref.nbytes for parts in plan.shared for ref in parts)
    if alike == 1 or len(first) % alike or (budget is not None and total > budget):
        return 1
    pairs = ((parts[i - 1], parts[i]) for parts in plan.shared for i in range(len(parts)) if i % alike)
    return alike if all(_equal(plan.source, *pair, None, cancelled) for pair in pairs) else 1


def understand(
    source: Source,
    policy: Policy | None = None,
    *,
    budget: int | None = None,
    progress: Progress | None = None,
    cancelled: IsCancelled | None = None,
) -> Plan:
    """Normalise, probe what bytes must decide, and normalise again with what was seen."""
    gathered = _gather(source, policy, Evidence(), cancelled)
    plan = judge_ties(gathered)  # enough to know what has to be compared; the rest is judged once, with what was seen
    evidence = probe(plan, budget=budget, progress=progress, cancelled=cancelled)
    if evidence.repeat > 1 or evidence.saved is not None:
        return normalise(source, policy, evidence)
    return _judge(gathered, evidence)
