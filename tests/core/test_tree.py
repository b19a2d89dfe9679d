"""The lazy tree of keys, and the filter."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt_gui.core import row_tree
from ckpt_gui.core.diff import STATES, Row, State
from ckpt_gui.core.filtering import Query, read_query
from ckpt_gui.core.row_tree import Node, RowTree
from ckpt_gui.core.tensors import TensorRef
from ckpt_gui.core.tree import DIFFERENT, CheckpointIndex


def row(key: str, state: State = "same", dtype: str = "bf16", expected: str | None = None) -> Row:
    ref = None if state == "missing" else TensorRef(key, dtype, (2, 3))
    stored = "" if state == "missing" else key
    return Row(state, stored, key if expected is None else expected, (2, 3), (2, 3), dtype, 12, ref)


def query(text: str) -> Query:
    return read_query(text, STATES)


def index(*keys: str) -> CheckpointIndex:
    return CheckpointIndex([row(key) for key in keys])


def leaves(tree: CheckpointIndex, node: Node) -> Iterator[Node]:
    if node.is_row:
        yield node
    for child in tree.children(node):
        yield from leaves(tree, child)


def names(tree: CheckpointIndex, node: Node) -> list[str]:
    return [child.name for child in tree.children(node)]


def test_children_are_in_natural_order_and_unbranched_names_are_joined() -> None:
    tree = index("layers.10.wq.weight", "layers.2.wq.weight", "layers.2.wk.weight", "norm.weight")
    assert names(tree, tree.root) == ["layers", "norm.weight"]
    layers = tree.children(tree.root)[0]
    assert names(tree, layers) == ["2", "10.wq.weight"]
    assert names(tree, tree.children(layers)[0]) == ["wk.weight", "wq.weight"]
    assert tree.children(tree.root)[1].is_row


def test_a_common_prefix_is_one_node() -> None:
    tree = index("_orig_mod.model.layers.0.a", "_orig_mod.model.layers.1.a")
    assert names(tree, tree.root) == ["_orig_mod.model.layers"]


def test_a_key_that_is_also_a_prefix_stands_beside_its_group() -> None:
    tree = index("a", "a.b", "a.c", "ab")
    assert names(tree, tree.root) == ["a", "a", "ab"]
    group = next(n for n in tree.children(tree.root) if not n.is_row)
    assert names(tree, group) == ["b", "c"]


def test_the_same_key_twice_gives_two_rows() -> None:
    tree = index("a.b", "a.b", "a.c")
    assert [n.name for n in leaves(tree, tree.root)] == ["b", "b", "c"]


def test_an_empty_checkpoint_has_an_empty_tree() -> None:
    tree = index()
    assert tree.children(tree.root) == ()
    assert tree.next_row(None, DIFFERENT) is None
    assert tree.find("a") is None


@given(st.lists(st.text(alphabet="ab.\x01é0", max_size=8), max_size=30))
def test_every_row_is_in_the_tree_once_and_can_be_located(keys: list[str]) -> None:
    tree = index(*keys)
    found = list(leaves(tree, tree.root))
    assert sorted(tree.number(n) for n in found) == list(range(len(keys)))
    for number, key in enumerate(keys):
        node = tree.locate(number)
        assert tree.number(node) == number
        assert ".".join(n.name for n in node.ancestors()) == key
        assert node.parent is not None
        assert tree.children(node.parent)[node.place] is node


def test_a_group_counts_the_states_below_it() -> None:
    tree = CheckpointIndex([row("a.x", "renamed"), row("a.y", "missing"), row("a.z", "renamed"), row("b")])
    assert tree.counts(tree.children(tree.root)[0]) == {"missing": 1, "renamed": 2}
    assert tree.counts(tree.root) == {"missing": 1, "renamed": 2, "same": 1}


def test_next_row_walks_the_differences_in_tree_order_both_ways_and_starts_over() -> None:
    rows = [row("l.10.a", "missing"), row("l.2.a", "extra"), row("l.2.b"), row("l.3.a"), row("z", "shape")]
    tree = CheckpointIndex(rows)
    node, seen = None, []
    for _ in range(4):
        node = tree.next_row(node, DIFFERENT)
        assert node is not None
        seen.append(tree.row(node).path)
    assert seen == ["l.2.a", "l.10.a", "z", "l.2.a"]
    back = tree.next_row(node, DIFFERENT, forward=False)
    assert back is not None
    assert tree.row(back).path == "z"


def test_next_row_enters_the_group_that_is_current() -> None:
    tree = CheckpointIndex([row("a", "extra"), row("b.x", "missing"), row("b.y")])
    group = tree.children(tree.root)[1]
    found = tree.next_row(group, DIFFERENT)
    assert found is not None
    assert tree.row(found).path == "b.x"


ROWS = [
    row("layers.0.wq.weight", "renamed", expected="model.layers.0.q_proj"),
    row("layers.0.norm", "same", "fp32"),
    row("layers.1.wq.weight", "missing"),
    row("rope.freqs", "extra", "fp32", expected=""),
]


@pytest.mark.parametrize(
    ("text", "hits"),
    [
        ("", [0, 1, 2, 3]),
        ("WQ", [0, 2]),
        ("wq layers.1", [2]),
        ("q_proj", [0]),
        ("!wq", [1, 3]),
        ("layers !wq", [1]),
        ("state:missing", [2]),
        ("state:missing,extra", [2, 3]),
        ("state:missing state:extra", []),
        ("!state:same", [0, 2, 3]),
        ("dtype:FP32 layers", [1]),
        ("!dtype:fp32", [0, 2]),
    ],
)
def test_filter(text: str, hits: list[int]) -> None:
    assert list(CheckpointIndex(ROWS).select(query(text)).rows) == hits


def test_counts_ignore_the_states_asked_for_but_not_the_rest() -> None:
    hits = CheckpointIndex(ROWS).select(query("wq state:missing"))
    assert hits.counts == {"renamed": 1, "missing": 1}


def test_a_set_of_keys_limits_the_rows() -> None:
    tree = CheckpointIndex(ROWS)
    assert list(tree.select(query(""), {"rope.freqs", "layers.1.wq.weight"}).rows) == [2, 3]
    assert list(tree.select(query("state:extra"), {"rope.freqs", "layers.1.wq.weight"}).rows) == [3]


def test_half_a_million_keys() -> None:
    count = 500_000
    rows = [
        row(f"model.layers.{n // 100}.experts.{n % 100}.w", "missing" if n == 123_456 else "same") for n in range(count)
    ]
    tree = CheckpointIndex(rows)
    (layers,) = tree.children(tree.root)
    assert (layers.name, layers.size) == ("model.layers", count)
    assert names(tree, layers)[:3] == ["0.experts", "1.experts", "2.experts"]
    found = tree.next_row(None, DIFFERENT)
    assert found is not None
    assert tree.number(found) == 123_456
    assert len(tree.select(query("experts.7. !layers.1")).rows) > 1000
    loaded = sum(1 for child in tree.children(layers) if child.children is not None)
    assert loaded == 1, "only the branch that was entered is built"


def test_what_is_stored_once_and_named_twice_counts_once() -> None:
    stored = [("a.embed", "s1"), ("a.mlp", "s2"), ("b.head", "s1"), ("b.norm", "s3"), ("b.head_too", "s1")]
    refs = [TensorRef(key, "bf16", (2, 3), (), "w.pt", storage) for key, storage in stored]
    tree = CheckpointIndex([Row("same", r.key, r.key, r.shape, r.shape, r.dtype, r.nbytes, r) for r in refs])
    assert tree.nbytes(tree.root) == 3 * 12
    a, b = tree.children(tree.root)
    assert (tree.nbytes(a), tree.nbytes(b)) == (2 * 12, 2 * 12), "each group holds it, and counts it once"
    assert [tree.nbytes(child) for child in tree.children(b)] == [12, 12, 12]


@given(st.lists(st.text(st.sampled_from("ab.-/"), max_size=40), max_size=60))
def test_keys_are_sorted_in_parts(keys: list[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_tree, "PART", 3)
        assert row_tree.in_order(keys) == sorted(range(len(keys)), key=keys.__getitem__)


@given(st.lists(st.text(st.sampled_from("a.-/0"), max_size=8), max_size=20))
def test_every_row_has_one_place_whatever_its_name(keys: list[str]) -> None:
    tree = index(*keys)
    assert sorted(tree.row(node).key for node in rows_below(tree, tree.root)) == sorted(keys)
    for number, key in enumerate(keys):
        assert tree.title(tree.locate(number)) == key
        assert tree.place(number) == key
        assert keys[tree.find(key) or 0] == key


TYPED_KEYS = (
    "layers.0.wq",
    "layers.0.Wq.scale",
    "layers.10.wq",
    "norm",
    "layers.1.experts.7.w1",
    "wq",
    "WQ",
    "a\u0130b",
)
TYPED = st.lists(st.sampled_from(["w", "q", ".", "0", "1", "layers", "WQ", "norm", "scale", "\u0130"]), max_size=5).map(
    "".join
)


@given(st.lists(st.sampled_from(TYPED_KEYS), max_size=12), TYPED)
def test_a_name_typed_and_deleted_key_by_key_passes_what_holds_it(keys: list[str], text: str) -> None:
    tree = index(*keys)
    grown = [text[:end] for end in range(1, len(text) + 1)]
    for typed in [*grown, *reversed(grown)]:
        naive = [n for n, key in enumerate(keys) if typed.lower() in key.lower()]
        found = tree.select(query(f'"{typed}"')).rows
        assert list(found) == naive
        shown = tree.only(found)
        assert sorted(shown.number(leaf) for leaf in rows_below(shown, shown.root)) == naive


def rows_below(tree: RowTree, node: Node) -> Iterator[Node]:
    if node.is_row:
        yield node
    for child in tree.children(node):
        yield from rows_below(tree, child)
