"""The passes, in order: each a pure step from one plan to the next.

A new pass is one file beside these and one line here.
"""

from __future__ import annotations

from collections.abc import Callable

from ckpt_gui.core.passes.adapter import find_adapter, keep_head
from ckpt_gui.core.passes.adapter_family import adapter_family
from ckpt_gui.core.passes.assigned import use_assigned
from ckpt_gui.core.passes.by_hand import rename_by_hand
from ckpt_gui.core.passes.check import check
from ckpt_gui.core.passes.detect import detect
from ckpt_gui.core.passes.dims import find_dims
from ckpt_gui.core.passes.merge_ranks import judge_ranks, merge_ranks
from ckpt_gui.core.passes.mxfp4 import decode_mxfp4
from ckpt_gui.core.passes.rename import rename
from ckpt_gui.core.passes.section import find_section
from ckpt_gui.core.passes.ties import judge_ties
from ckpt_gui.core.passes.unwrap import unwrap
from ckpt_gui.core.plan import Plan

Pass = Callable[[Plan], Plan]

NAMES_AND_SHAPES: tuple[Pass, ...] = (
    find_section,  # which nested dict holds the weights
    use_assigned,  # only what the index names, where that is wanted
    unwrap,  # names that wrappers put into keys go
    rename_by_hand,  # names that the user corrects
    find_adapter,  # adapters: on their own, or to be merged into the weights beside them
    decode_mxfp4,  # codes and scales whose names leave no doubt become the weights that they stand for
    detect,  # family and layout, with evidence
    merge_ranks,  # slices of tensor-parallel ranks become whole tensors
    adapter_family,  # whose modules an adapter changes
    rename,  # hub names and the ops they need; buffers out
    find_dims,  # sizes from config and shapes
    keep_head,  # an adapter that trained one of a tied pair has made them two
)
JUDGEMENT: tuple[Pass, ...] = (
    judge_ranks,  # do the ranks hold the same where they must?
    judge_ties,  # embedding and head, by role and bytes: run again when the bytes have been compared
    check,  # complete? shapes? types?
)
PIPELINE = (*NAMES_AND_SHAPES, *JUDGEMENT)
