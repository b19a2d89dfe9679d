"""Many values at once are the values that would be made one by one."""

from __future__ import annotations

from itertools import repeat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt_gui.core.bulk import build
from ckpt_gui.core.entry import carried, carried_all, explained_all, renamed_all
from ckpt_gui.core.keys import bind, indices, renaming
from ckpt_gui.core.tensors import TensorRef, TensorSpec

REFS = [TensorRef(f"layers.{n}.w", "bf16", (n, 8)) for n in range(3)]


def test_values_are_those_of_the_class() -> None:
    made = build(TensorSpec, 2, key=["a", "b"], dtype=repeat("bf16"), shape=[(1,), (2, 3)])
    assert made == [TensorSpec("a", "bf16", (1,)), TensorSpec("b", "bf16", (2, 3))]
    assert len({*made, TensorSpec("a", "bf16", (1,))}) == 2
    with pytest.raises(AttributeError):
        made[0].key = "c"  # type: ignore[misc]


def test_many_entries_are_as_single_ones() -> None:
    keys = ["x", "y", "z"]
    entries = [carried(ref, key) for ref, key in zip(REFS, keys, strict=True)]
    assert carried_all(REFS, keys) == entries
    assert renamed_all(entries, ["1", "2", "3"]) == [e.renamed(k) for e, k in zip(entries, "123", strict=True)]
    assert renamed_all(entries[:1], ["q"], "so") == [entries[0].renamed("q", why="so")]
    assert explained_all(entries, "so") == [e.renamed(e.key, why="so") for e in entries]


TEMPLATES = ("a.{layer}.b.{expert}.c", "100%.{expert}.x.{layer}", "plain.{layer}", "nothing")


@given(st.integers(0, 9999), st.integers(0, 9999))
def test_renaming_does_what_binding_and_formatting_do(layer: int, expert: int) -> None:
    before = TEMPLATES[0]
    key = before.format(layer=layer, expert=expert)
    for after in TEMPLATES:
        assert renaming(before, after)(indices(key)) == after.format(**bind(before, key))
