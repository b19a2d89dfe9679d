"""What the figures of a model's tensors mean: one table of judges, each from figures to findings, reading nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ckpt_gui.core.errors import Finding
from ckpt_gui.core.plan import Plan
from ckpt_gui.core.scan.judge_model import fresh, fresh_norms, outliers, upcast
from ckpt_gui.core.scan.judge_values import (
    all_zero,
    beyond_fp16,
    constant,
    dead_rows,
    non_finite,
    overflow,
    unreadable,
    untrained_rows,
)
from ckpt_gui.core.scan.result import TensorScan

Judge = Callable[[Plan, Sequence[TensorScan]], Iterator[Finding]]
JUDGES: tuple[Judge, ...] = (
    unreadable, non_finite, overflow, beyond_fp16, all_zero, constant, dead_rows, outliers, untrained_rows, fresh,
    fresh_norms, upcast,
)  # fmt: skip


def judge(plan: Plan, tensors: Sequence[TensorScan]) -> tuple[Finding, ...]:
    """Return what looks wrong, in the order of `JUDGES`."""
    return tuple(finding for judge_one in JUDGES for finding in judge_one(plan, tensors))
