"""Many checkpoints at once: a verdict on each, and the writing of those that are certain.

A verdict is a value and holds no open file, so that a queue of a hundred checkpoints costs nothing while it waits. What
is certain is decided by the same export that the window and `fix` make: nothing here knows a rule of its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

from ckpt_gui import dataclasses
from ckpt_gui.core.api import compared, read_base
from ckpt_gui.core.cores import WORKERS
from ckpt_gui.core.errors import CheckpointError, Finding, worst_first
from ckpt_gui.core.export import Export, Target
from ckpt_gui.core.families.layouts import title_of
from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.formats.folder import find_inside
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.normalise import understand
from ckpt_gui.core.plan import Plan
from ckpt_gui.core.plan_file import read_plan
from ckpt_gui.core.policy import Policy
from ckpt_gui.core.remote.address import is_url
from ckpt_gui.core.retarget import retarget
from ckpt_gui.core.source import Source
from ckpt_gui.core.text import plural
from ckpt_gui.dataclasses import dataclass

if TYPE_CHECKING:
    from ckpt_gui.core.writer import WriteResult

Progress = Callable[[str, int, int], None]
IsCancelled = Callable[[], bool]
State = Literal["clean", "certain", "decision", "error"]
STATES: tuple[State, ...] = ("certain", "decision", "error", "clean")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is known of one checkpoint of many, for one target.

    Attributes:
        path: As it was named.
        state: `clean` (it is already what is wanted), `certain` (no step is guessed, and nothing blocks), `decision`
            (the user has to settle something) or `error` (it can not be opened).
        sentence: Why, in one sentence for a person.
        kind: What it is, such as `Llama, Meta layout`; empty where it can not be opened.
        container: Its container, such as `torch-zip`; empty where it can not be opened.
        tensors: Tensors stored.
        nbytes: Their bytes, those that are stored twice counted twice.
        steps: Titles of what an export does.
        code: Code of the finding or error that the sentence comes from; empty if none.
        inside: Where it is a folder of checkpoints and none itself, such as that of a training run: their paths.
    """

    path: str
    state: State
    sentence: str
    kind: str = ""
    container: str = ""
    tensors: int = 0
    nbytes: int = 0
    steps: tuple[str, ...] = ()
    code: str = ""
    inside: tuple[str, ...] = ()


def judge(
    path: str,
    target: Target,
    policy: Policy | None = None,
    *,
    budget: int | None = None,
    progress: Progress | None = None,
    cancelled: IsCancelled | None = None,
) -> Verdict:
    """Open a checkpoint, say what it is and whether it can be written as `target` without a question; close it.

    Args:
        path: A file, a folder or an index file.
        target: What it shall become.
        policy: Decisions that hold for every checkpoint, such as those of a plan file.
        budget: Bytes of a tied pair that are compared at most.
        progress: Called with a label, bytes done and bytes in all.
        cancelled: Asked before each block.

    Raises:
        Cancelled: `cancelled` said so.
    """
    try:
        with open_checkpoint(path, progress=progress, cancelled=cancelled) as source:
            plan = understand(source, policy, budget=budget, progress=progress, cancelled=cancelled)
            return _verdict(path, source, plan, retarget(plan, target))
    except CheckpointError as error:
        return Verdict(path, "error", error.message, code=error.code, inside=_inside(path, error.code))
    except OSError as error:
        return Verdict(path, "error", f"The system says: {error.strerror or error}.")


def _inside(path: str, code: str) -> tuple[str, ...]:
    """Return the checkpoints in a folder that is none itself, the first of a run first; none where it can't be told."""
    if code != "not-a-checkpoint" or is_url(path) or not os.path.isdir(path):
        return ()
    return tuple(os.path.join(path, name) for name in reversed(find_inside(path)))


def _verdict(path: str, source: Source, plan: Plan, export: Export) -> Verdict:
    state, sentence, code = state_of(plan, export)
    return Verdict(
        path, state, sentence, _kind(plan), source.container, len(source.refs), sum(ref.nbytes for ref in source.refs),
        tuple(step.title for step in export.steps), code,
    )  # fmt: skip


def state_of(plan: Plan, export: Export) -> tuple[State, str, str]:
    """Return the state, the sentence for it, and the code of the finding that decides."""
    if not plan.source.refs:
        return _by(worst_first(plan.findings), "error", "It holds no tensor.")
    if export.blocked:
        return _by(export.blocked, "decision", "")
    doubtful = [step for step in export.steps if not step.certain]
    if doubtful:
        return "decision", f"{doubtful[0].title}: this is likely, not certain.", ""
    if plan.status == "clean" and plan.config is not None and all(step.id == "config" for step in export.steps):
        return "clean", "Nothing has to be changed.", ""
    warnings = [f for f in worst_first(plan.findings) if f.severity != "info"]
    steps = (
        f"{plural(len(export.steps), 'step')}, nothing to decide." if export.steps else "It can be written as it is."
    )
    return "certain", f"{warnings[0].message} {steps}" if warnings else steps, warnings[0].code if warnings else ""


def _by(findings: Sequence[Finding], state: State, otherwise: str) -> tuple[State, str, str]:
    return (state, findings[0].message, findings[0].code) if findings else (state, otherwise, "")


def _kind(plan: Plan) -> str:
    if plan.layout is None:
        return "Unknown layout"
    family = plan.family.title if plan.family else ""
    return f"{family}, {title_of(plan.layout.name)} layout" if family else title_of(plan.layout.name)


def load_plan(path: str) -> tuple[Policy, Target]:
    """Return the decisions of a plan file, to be taken for every checkpoint.

    Raises:
        CheckpointError: It is no plan file, the folder that it takes files from is not there, or it merges an adapter.
    """
    saved = read_plan(path)
    if saved.adapter is not None:
        text = (
            f"The plan merges the adapter {safe_text(saved.adapter, 300)}: that is done for one checkpoint at a time."
        )
        raise CheckpointError("bad-plan", text, fix="Open the one that it belongs to, and load the plan there.")
    return saved.policy, dataclasses.replace(saved.target, base=read_base(saved.base))


def write_certain(
    path: str,
    target: Target,
    folder: str,
    policy: Policy | None = None,
    *,
    sha256: bool = False,
    workers: int = WORKERS,
    progress: Progress | None = None,
    cancelled: IsCancelled | None = None,
) -> WriteResult:
    """Open a checkpoint and write it, verified, if every step is certain; the tied pair is compared to its end first.

    Raises:
        CheckpointError: It is not certain (any more), it can not be read, or it can not be written; nothing is left
            behind, and nothing that is there is replaced.
        Cancelled: `cancelled` said so; nothing is left behind.
    """
    with open_checkpoint(path, progress=progress, cancelled=cancelled) as source:
        plan = understand(source, policy, progress=progress, cancelled=cancelled)
        export = retarget(compared(plan, progress=progress, cancelled=cancelled), target)
        state, sentence, code = state_of(plan, export)
        if state not in ("certain", "clean"):
            raise CheckpointError(code or "decision-needed", sentence, fix="Open it in a window and decide.", path=path)
        from ckpt_gui.core.writer import write_export  # only here: the window starts without what writes

        return write_export(export, folder, workers=workers, progress=progress, cancelled=cancelled, sha256=sha256)
