"""The embedding and the output head of a base that has one for both, when an adapter trains one of them."""

from __future__ import annotations

from collections.abc import Mapping

from ckpt_gui import dataclasses
from ckpt_gui.core.joined import same_bytes
from ckpt_gui.core.merging.work import Work
from ckpt_gui.core.plan import Dropped
from ckpt_gui.core.tensors import TensorRef


def keep_the_pair(work: Work) -> None:
    """Let a tied head be a tensor of its own where the adapter trains it or the embedding."""
    embedding, head = work.role("embedding"), work.role("head")
    if not embedding or not head or work.plan.tie.tied is not True or embedding not in work.stored:
        return
    ends = (embedding, head)
    _resize(work, ends)
    whole = [name for name in ends if work.is_trained(name)]
    pairs = [lora for lora in work.adapter.loras if f"{lora.module}.weight" in ends]
    if not whole and not pairs:
        return
    if len(whole) == 2 and not pairs and _equal(work, embedding, head):
        ref = work.adapter.whole[head]
        work.gone.append(Dropped(ref, "equals the embedding byte for byte", "redundant", head))
        work.adapter = dataclasses.replace(work.adapter, whole=_without(work.adapter.whole, head))
        if head in work.stored:
            work.put(head, work.adapter.whole[embedding])
        return
    work.apart = True
    if head not in work.stored:
        work.stored[head] = work.stored[embedding].renamed(head, why="the head was the embedding before training")
        work.touched[head] = None


def _resize(work: Work, ends: tuple[str, str]) -> None:
    """Take the base's own embedding out of the adapter: PEFT stores it where the vocabulary has grown."""
    held = [name for name in ends if name in work.adapter.whole and not work.is_trained(name)]
    if not held:
        return
    for name in ends:
        if name in work.stored:
            work.put(name, work.adapter.whole[held[0]])
    for name in held:
        ref = work.adapter.whole[name]
        if name != held[0]:
            work.gone.append(Dropped(ref, "is the tied embedding once more", "redundant", name))
        work.adapter = dataclasses.replace(work.adapter, whole=_without(work.adapter.whole, name))


def _equal(work: Work, left: str, right: str) -> bool:
    return same_bytes(work.source, work.adapter.whole[left], work.adapter.whole[right])


def _without(whole: Mapping[str, TensorRef], name: str) -> dict[str, TensorRef]:
    return {key: ref for key, ref in whole.items() if key != name}
