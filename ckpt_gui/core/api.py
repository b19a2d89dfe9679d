"""The short way for scripts: `write`, `diff`, `stats` over the same core as the window and the command line."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.merging import merge_adapter
from ckpt_gui.core.normalise import normalise, probe
from ckpt_gui.core.plan import Plan, Policy
from ckpt_gui.core.retarget import GB, Target, retarget
from ckpt_gui.core.tensors import Source, TensorRef

if TYPE_CHECKING:
    from ckpt_gui.core.diff import Diff
    from ckpt_gui.core.stats import PairStats, TensorStats
    from ckpt_gui.core.writer import WriteResult


def write(
    plan: Plan,
    folder: str | os.PathLike[str],
    layout: str = "same",
    *,
    container: str | None = None,
    dtype: str = "keep",
    max_shard_bytes: int = 5 * GB,
    overwrite: bool = False,
    workers: int = 2,
    adapter: str | os.PathLike[str] | None = None,
    lora_alpha: float | None = None,
    progress: Callable[[str, int, int], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> WriteResult:
    """Write a plan's checkpoint to a folder, verified; the tied pair is compared first if nobody has.

    Args:
        plan: From `normalise`.
        folder: Absent or empty, unless `overwrite`.
        layout: `hf`, `meta`, `torchtune` or `same`.
        container: `safetensors` or `torch`; the layout's usual one by default.
        dtype: `keep`, `bf16`, `fp16` or `fp32`.
        max_shard_bytes: A file gets no larger, unless one tensor is.
        overwrite: Replace a folder that is not empty.
        workers: Threads.
        adapter: Folder or file of an adapter to merge into it.
        lora_alpha: The adapter's alpha, where its adapter_config.json does not say.
        progress: Called with a label, bytes done and bytes in all.
        cancelled: Asked before each block.

    Raises:
        CheckpointError: It can not be done; nothing is left behind.
        Cancelled: `cancelled` said so.
    """
    from ckpt_gui.core.writer import write_export

    plan = compared(plan, progress=progress, cancelled=cancelled)
    with open_adapter(adapter) if adapter is not None else nullcontext() as other:
        if other is not None:
            plan = merge_adapter(plan, normalise(other, Policy(lora_alpha=lora_alpha)))
        export = retarget(plan, Target(layout, container, dtype, max_shard_bytes))
        return write_export(
            export, folder, overwrite=overwrite, workers=workers, progress=progress, cancelled=cancelled
        )


def open_adapter(path: str | os.PathLike[str]) -> Source:
    """Open an adapter; in a folder its usual files come first, for a whole model may lie beside them.

    Raises:
        CheckpointError: There is none.
    """
    # torchtune writes the first two: its own is right, what it writes for PEFT not always.
    names = ("adapter_model.pt", "adapter_model.safetensors", "adapter_model.bin")
    files = [os.path.join(path, name) for name in names] if os.path.isdir(path) else []
    return open_checkpoint(next((file for file in files if os.path.isfile(file)), path))


def compared(
    plan: Plan,
    *,
    progress: Callable[[str, int, int], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Plan:
    """Return the plan with its tied pair, and what ranks hold alike, compared."""
    evidence = probe(plan, progress=progress, cancelled=cancelled)
    return plan if evidence is plan.evidence else normalise(plan.source, plan.policy, evidence)


def diff(plan: Plan, layout: str = "hf") -> Diff:
    """Compare a checkpoint, row by row, with what it would be in a layout."""
    from ckpt_gui.core.diff import diff_expected

    return diff_expected(retarget(plan, Target(layout)))


def stats(source: Source, key: str, other: str | None = None, **options: Any) -> TensorStats | PairStats:
    """Return the statistics of a tensor, or of a pair of tensors, by stored key.

    Raises:
        CheckpointError: There is no such tensor, or the two have different shapes.
    """
    from ckpt_gui.core.stats import pair_stats, tensor_stats

    if other is None:
        return tensor_stats(source, find_ref(source, key), **options)
    return pair_stats(source, find_ref(source, key), find_ref(source, other), **options)


def find_ref(source: Source, key: str) -> TensorRef:
    """Return the tensor of that stored key, with or without its section.

    Raises:
        CheckpointError: There is none.
    """
    for ref in source.refs:
        if key in (ref.key, ref.full_key):
            return ref
    raise CheckpointError("missing-tensor", f"There is no tensor `{safe_text(key)}` in this checkpoint.", key=key)
