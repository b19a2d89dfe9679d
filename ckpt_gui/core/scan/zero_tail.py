"""A file that ends in zeros: its space was reserved, and the download or the copy never came to its end.

Each tensor there looks like a fault of training when it is looked at alone; said once for the file, the cause is plain.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from ckpt_gui.core.errors import CheckpointError, Finding
from ckpt_gui.core.file_map import ByteRange, byte_map
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.plan import Plan
from ckpt_gui.core.scan.judge_values import is_zero_weight
from ckpt_gui.core.scan.result import TensorScan
from ckpt_gui.core.source import Source
from ckpt_gui.core.tensors import TensorRef
from ckpt_gui.core.text import plural

FEWEST = 2  # weights at the end that are nothing but zeros: a single one may be meant so
BLOCK = 1 << 20


def zero_tails(plan: Plan, tensors: Sequence[TensorScan]) -> tuple[Finding, ...]:
    """Return a finding for each file that holds nothing but zeros from some byte on.

    Its keys are the tensors that lie in the zeros, the first of them perhaps in part.

    Args:
        plan: The model.
        tensors: What was found in each.
    """
    if plan.adapter is not None:  # the second matrices of a fresh one are zero
        return ()
    scans = {tensor.ref.full_key: tensor for tensor in tensors}
    counts = Counter(tensor.ref.file for tensor in tensors if is_zero_weight(tensor))
    names = [name for name, count in counts.items() if count >= FEWEST]
    found = [_zero_tail(plan.source, name, scans) for name in names]
    return tuple(finding for finding in found if finding is not None)


def _zero_tail(source: Source, name: str, scans: Mapping[str, TensorScan]) -> Finding | None:
    runs = byte_map(source, name)
    size = runs[-1].end if runs else 0
    tail: list[str] = []
    begin, weights, partly = size, 0, ""
    for run in reversed(runs):
        scan = _scan_of(run, scans)
        if scan is None:
            break
        if not scan.stats.count or scan.stats.zeros < scan.stats.count:
            begin, partly = _zeros_from(source, scan.ref, run), run.keys[0]
            break
        begin = run.begin
        tail += run.keys
        weights += is_zero_weight(scan)
    if weights < FEWEST:
        return None
    keys = (*([partly] if partly and begin < _end_of(runs, partly) else []), *reversed(tail))
    message = (
        f"{safe_text(name, 80)} holds nothing but zeros from byte {begin:,} on, to its end at {size:,}: the download "
        f"or the copy was not finished. {plural(len(keys), 'tensor')} from `{safe_text(keys[0])}` on "
        "lie there, wholly or in part."
    )
    return Finding("zero-filled", "error", message, keys, "Download or copy it again.")


def _scan_of(run: ByteRange, scans: Mapping[str, TensorScan]) -> TensorScan | None:
    """Return what was found in the tensor of a run; None for a gap, or one that was not read."""
    return next((scan for key in run.keys if (scan := scans.get(key)) and not scan.error), None)


def _end_of(runs: Sequence[ByteRange], key: str) -> int:
    return next(run.end for run in runs if key in run.keys)


def _zeros_from(source: Source, ref: TensorRef, run: ByteRange) -> int:
    """Return the byte of the file from which on a run holds nothing but zeros; its end if its last byte is none."""
    reader, end = source.readers[ref.file], run.end - run.begin
    while end:
        start = max(0, end - BLOCK)
        block = bytearray(end - start)
        try:
            reader.read_into(ref, start, memoryview(block))
        except CheckpointError:  # it was read a moment ago: the tensors behind it are zero all the same
            return run.end
        if kept := len(block.rstrip(b"\0")):
            return run.begin + start + kept
        end = start
    return run.begin
