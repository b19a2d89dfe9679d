"""Values that are not looked through for cycles: they still go, and so do the nodes of a tree."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from ckpt_gui.core import garbage
from ckpt_gui.core.diff import Row
from ckpt_gui.core.row_tree import Node
from ckpt_gui.core.tree import CheckpointIndex


class Noted(Node):
    """A node whose end can be watched."""

    __slots__ = ("__weakref__",)


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(garbage, "MANY", 1_000)
    yield
    gc.unfreeze()


def test_many_values_are_set_aside_and_few_are_not() -> None:
    gc.collect()
    gc.unfreeze()
    with garbage.made_to_last():
        assert not gc.isenabled()
        few = [[n] for n in range(10)]
    assert gc.get_freeze_count() == 0
    with garbage.made_to_last():
        many = [[n] for n in range(2_000)]
    assert gc.isenabled()
    assert gc.get_freeze_count() >= len(many) > len(few)


def test_who_had_it_off_finds_it_off() -> None:
    gc.disable()
    try:
        with garbage.made_to_last():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_a_tree_goes_without_a_search_for_cycles() -> None:
    tree = CheckpointIndex([Row("same", f"l.{n}.w", f"l.{n}.w", (2,), (2,), "bf16", 4, None) for n in range(4)])
    watched = Noted("watched", 0, 4, 1, tree.root, False)
    watched.children = (Noted("below", 0, 1, 2, watched, True),)
    tree.root.children = (watched,)
    seen = weakref.ref(watched)
    gc.disable()
    try:
        del watched, tree
        assert seen() is None
    finally:
        gc.enable()
