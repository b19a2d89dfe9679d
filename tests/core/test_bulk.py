"""Many values at once are the values that would be made one by one."""

from __future__ import annotations

from collections import Counter
from itertools import repeat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt_gui.core import bulk
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


def test_blocks_give_the_same_as_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "BLOCK", 3)
    words = ["the", "same", "word", "the", "other", "word", "again", "and", "again"]
    assert [list(block) for block in bulk.blocks(words)] == [words[:3], words[3:6], words[6:]]
    assert bulk.column(str.upper, words) == [word.upper() for word in words]
    assert bulk.tally(iter(words)) == Counter(words)
    assert bulk.joined(words, range(len(words))) == {word: n for n, word in enumerate(words)}
    with pytest.raises(ValueError, match="argument 2"):
        bulk.joined(words, range(5))
    assert bulk.has_any({"again"}, words)
    assert not bulk.has_any({"none"}, words)
    assert list(bulk.blocks(())) == []


def test_a_dict_is_emptied() -> None:
    known = {n: [n] for n in range(5)}
    bulk.let_go(known)
    assert known == {}
