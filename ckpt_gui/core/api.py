"""The short way for scripts: `write`, `diff`, `compare` and `stats`, over the core that the window uses too."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from ckpt_gui import dataclasses
from ckpt_gui.core.beside import Sidecars
from ckpt_gui.core.cores import WORKERS
from ckpt_gui.core.edits import FieldEdit, Rename
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.export import GB, Target
from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.formats.places import is_file, is_folder, join
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.normalise import normalise, probe
from ckpt_gui.core.plan import Plan
from ckpt_gui.core.policy import TIE_CHOICES, Policy
from ckpt_gui.core.remote.address import admit
from ckpt_gui.core.remote.watch import watching
from ckpt_gui.core.renames import check_rule
from ckpt_gui.core.retarget import retarget, with_base
from ckpt_gui.core.source import Source, find_ref
from ckpt_gui.core.text.words import read_bytes

if TYPE_CHECKING:
    from ckpt_gui.core.compare import Comparison
    from ckpt_gui.core.diff import Diff
    from ckpt_gui.core.stats import PairStats, TensorStats
    from ckpt_gui.core.writer import WriteResult

Progress = Callable[[str, int, int], None]
IsCancelled = Callable[[], bool]


def write(
    plan: Plan,
    folder: str | os.PathLike[str],
    layout: str = "same",
    *,
    container: str | None = None,
    dtype: str = "keep",
    max_shard_bytes: int | str = 5 * GB,
    model_parallel: int | None = None,
    tie: str | None = None,
    drop: Collection[str] = (),
    renames: Sequence[Rename] = (),
    config: Sequence[FieldEdit] = (),
    metadata: Sequence[FieldEdit] = (),
    base: str | os.PathLike[str] | None = None,
    adapter: str | os.PathLike[str] | None = None,
    lora_alpha: float | None = None,
    overwrite: bool = False,
    sha256: bool = False,
    workers: int = WORKERS,
    executor: Executor | None = None,
    resume: bool = False,
    nice: bool = False,
    progress: Progress | None = None,
    cancelled: IsCancelled | None = None,
) -> WriteResult:
    """Write a plan's checkpoint to a folder, verified; the tied pair is compared first if nobody has.

    Args:
        plan: From `normalise`.
        folder: Absent or empty, unless `overwrite`.
        layout: `hf`, `meta`, `torchtune`, `litgpt` or another that the family has; or `same`.
        container: `safetensors` or `torch`; the layout's usual one by default.
        dtype: `keep`, `bf16`, `fp16` or `fp32`.
        max_shard_bytes: A file gets no larger, unless one tensor is: a number, or words such as `5GB`.
        model_parallel: Number of tensor-parallel ranks that Meta's files are cut for.
        tie: What becomes of the output head: `auto`, `keep`, `drop`, `copy` or `none` (see `Policy`); as the plan says
            by default.
        drop: Stored keys of tensors to leave out.
        renames: Rules that give tensors other names before the layout is told, after those that the plan has.
        config: Fields of the config to set or take out, after those that the plan has.
        metadata: Texts of the safetensors metadata to set or take out.
        base: Folder whose config, tokenizer and generation files stand in for those that the source lacks.
        adapter: A LoRA or DoRA adapter (folder or file) to merge into the weights.
        lora_alpha: Alpha of the adapter, where its config does not tell.
        overwrite: Replace a folder that is not empty.
        sha256: Put the SHA-256 of each file into EXPORT_REPORT.json.
        workers: Threads.
        executor: Any `concurrent.futures.Executor` (of threads, processes, a cluster): each file becomes a job of it.
        resume: Go on with what an interrupted export to this folder has left whole.
        nice: Leave half of the time to others.
        progress: Called with a label, bytes done and bytes in all.
        cancelled: Asked before each block.

    Returns:
        What was written: folder, files, tensors, bytes, seconds, and the report.

    Raises:
        CheckpointError: It can not be done; nothing is left behind.
        Cancelled: `cancelled` said so.
    """
    from ckpt_gui.core.writer import write_export

    size = max_shard_bytes if isinstance(max_shard_bytes, int) else read_bytes(max_shard_bytes)
    target = Target(layout, container, dtype, size, read_base(base), model_parallel, tuple(metadata))
    with ExitStack() as held:
        plan = compared(decided(plan, tie, drop, renames, config), progress=progress, cancelled=cancelled)
        if adapter is not None:
            plan = merged(plan, held.enter_context(open_adapter(adapter)), target.base, lora_alpha)
        return write_export(
            retarget(plan, target), folder, overwrite=overwrite, workers=workers, progress=progress,
            cancelled=cancelled, sha256=sha256, executor=executor, resume=resume, nice=nice,
        )  # fmt: skip


def decided(
    plan: Plan,
    tie: str | None = None,
    drop: Collection[str] = (),
    renames: Sequence[Rename] = (),
    config: Sequence[FieldEdit] = (),
) -> Plan:
    """Return the plan with further decisions of the user.

    Raises:
        CheckpointError: There is no tensor of that key, no such word for the tied pair, or a rule can not be used.
    """
    if tie is not None and tie not in TIE_CHOICES:
        text = f"{safe_text(tie, 40)} is no way to treat the tied pair; choose {', '.join(TIE_CHOICES)}."
        raise CheckpointError("tied-conflict", text)
    gone = plan.policy.dropped | {find_ref(plan.source, key).full_key for key in drop}
    for rule in renames:
        check_rule(rule)
    policy = dataclasses.replace(
        plan.policy, tie=tie or plan.policy.tie, dropped=gone, renames=(*plan.policy.renames, *renames),
        config=(*plan.policy.config, *config),
    )  # fmt: skip
    return plan if policy == plan.policy else normalise(plan.source, policy, plan.evidence)


def merged(plan: Plan, adapter: Source, base: Sidecars | None = None, lora_alpha: float | None = None) -> Plan:
    """Return the plan with an adapter merged into it; read from `adapter` while it is written.

    Raises:
        CheckpointError: It is no adapter, or does not fit.
    """
    from ckpt_gui.core.merging import merge_adapter

    return merge_adapter(with_base(plan, base), normalise(adapter, Policy(lora_alpha=lora_alpha)))


def read_base(folder: str | os.PathLike[str] | None) -> Sidecars | None:
    """Return the config, tokenizer and generation files of another folder, to be carried.

    Raises:
        CheckpointError: There is no such folder, or its config can not be read.
    """
    if folder is None:
        return None
    with watching(None, None):
        return _read_base(os.fspath(folder))


def _read_base(folder: str) -> Sidecars:
    if not is_folder(folder):
        text = f"The base {safe_text(folder, 400)} is no folder."
        raise CheckpointError("not-a-checkpoint", text, fix="Name a folder with a config.")
    from ckpt_gui.core.formats.sidecars import read_sidecars

    return read_sidecars(folder)[0]


def open_adapter(path: str | os.PathLike[str]) -> Source:
    """Open an adapter to merge; in a folder its usual files come first, for a whole model may lie beside them.

    Raises:
        CheckpointError: There is none.
    """
    # torchtune writes both: its own is right, what it writes for PEFT not always.
    names = ("adapter_model.pt", "adapter_model.safetensors", "adapter_model.bin")
    where = admit(os.fspath(path))
    with watching(None, None):
        files = [join(where, name) for name in names] if is_folder(where) else []
        chosen = next((file for file in files if is_file(file)), where)
    return open_checkpoint(chosen)


def compared(
    plan: Plan,
    *,
    progress: Progress | None = None,
    cancelled: IsCancelled | None = None,
) -> Plan:
    """Return the plan with its tied pair, and what ranks hold alike, compared."""
    evidence = probe(plan, progress=progress, cancelled=cancelled)
    return plan if evidence is plan.evidence else normalise(plan.source, plan.policy, evidence)


def diff(plan: Plan, layout: str = "hf") -> Diff:
    """Compare a checkpoint, row by row, with what it would be in a layout."""
    from ckpt_gui.core.diffing import diff_expected

    return diff_expected(retarget(plan, Target(layout)))


def compare(a: Plan, b: Plan, *, values: bool = False, **options: Any) -> Comparison:
    """Compare two checkpoints, in whatever layouts they are.

    Args:
        a: The older, or the base.
        b: The newer.
        values: True to compare values, too, those of the tied pairs first if nobody has.
        options: Those of `ckpt_gui.core.compare.compare`, such as `workers`, `progress` and `cancelled`.
    """
    from ckpt_gui.core import compare as comparing

    one, two = (comparing.side_of_plan(compared(plan) if values else plan) for plan in (a, b))
    return comparing.compare(one, two, values=values, **options)


def stats(source: Source, key: str, other: str | None = None, **options: Any) -> TensorStats | PairStats:
    """Return the statistics of a tensor, or of a pair of tensors, by stored key.

    Raises:
        CheckpointError: There is no such tensor, or the two have different shapes.
    """
    from ckpt_gui.core.stats import pair_stats, tensor_stats

    if other is None:
        return tensor_stats(source, find_ref(source, key), **options)
    return pair_stats(source, find_ref(source, key), find_ref(source, other), **options)
