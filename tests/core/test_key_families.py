"""Families of keys: ranges, gaps, several numbers, ranks, shapes and types that differ, and the tree's own laws."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt_gui.core.diff import Row, State
from ckpt_gui.core.family_members import Common
from ckpt_gui.core.key_families import Family, FamilyTree
from ckpt_gui.core.key_numbers import braced, grouped, lacking_text, number_at, ranges
from ckpt_gui.core.row_tree import DOT, Node
from ckpt_gui.core.tensors import TensorRef
from ckpt_gui.core.tree import DIFFERENT, CheckpointIndex


def row(
    key: str, state: State = "same", dtype: str = "bf16", shape: tuple[int, ...] = (2, 3), expected: str | None = None
) -> Row:
    ref = None if state == "missing" else TensorRef(key, dtype, shape, file="w.pt")
    stored, wanted = "" if state == "missing" else key, key if expected is None else expected
    return Row(state, stored, wanted, shape if ref else None, shape, dtype, 12, ref)


def tree_of(*rows: Row) -> FamilyTree:
    return CheckpointIndex(rows).families()


def lines(tree: FamilyTree, node: Node | None = None, depth: int = 0) -> Iterator[str]:
    """Yield the names of the groups and families, indented; members are left out."""
    for child in tree.children(node or tree.root):
        yield "  " * depth + f"{child.name} {child.size}"
        if not isinstance(child, Family):
            yield from lines(tree, child, depth + 1)


def family(tree: FamilyTree, name: str, node: Node | None = None) -> Node:
    for child in tree.children(node or tree.root):
        if child.name == name:
            return child
        if not child.is_row and not isinstance(child, Family):
            try:
                return family(tree, name, child)
            except LookupError:
                continue
    raise LookupError(name)


def common(tree: FamilyTree, name: str) -> Common:
    return tree.common(family(tree, name))


def leaves(tree: FamilyTree, node: Node) -> Iterator[Node]:
    if node.is_row:
        yield node
    for child in tree.children(node):
        yield from leaves(tree, child)


def test_layers_and_experts_are_one_line_each() -> None:
    keys = [f"layers.{n}.{part}" for n in range(12) for part in ("wq.weight", "norm")]
    keys += [f"layers.{n}.experts.{e}.w{w}" for n in range(12) for e in range(4) for w in (1, 2)]
    tree = tree_of(*(row(key) for key in ("embed", *keys, "head.weight")))
    assert list(lines(tree)) == [
        "embed 1", "head.weight 1", "layers.{0-11} 120", "  experts.{0-3} 96", "    w1 48", "    w2 48", "  norm 12",
        "  wq.weight 12",
    ]  # fmt: skip
    w2 = family(tree, "w2")
    assert tree.title(w2) == "layers.{0-11}.experts.{0-3}.w2"
    assert [n.name for n in tree.children(w2)][:3] == ["layers.0", "layers.1", "layers.2"]
    eleventh = tree.children(w2)[11]
    assert tree.title(eleventh) == "layers.11.experts.{0-3}.w2"
    members = tree.children(eleventh)
    assert [n.name for n in members] == ["experts.0", "experts.1", "experts.2", "experts.3"]
    assert [tree.row(n).key for n in members] == [f"layers.11.experts.{e}.w2" for e in range(4)]


def test_members_are_in_natural_order() -> None:
    tree = tree_of(*(row(f"h.{n}.w") for n in (10, 9, 2, 100, 0)))
    assert [n.name for n in tree.children(tree.children(tree.root)[0])] == ["h.0", "h.2", "h.9", "h.10", "h.100"]


def test_a_member_that_is_lacking_is_named() -> None:
    rows = [row(f"layers.{n}.{part}") for n in range(32) for part in ("wq", "wk") if (n, part) != (15, "wk")]
    tree = tree_of(*rows)
    assert list(lines(tree)) == ["layers.{0-31} 63", "  wk 31", "  wq 32"]
    wk, wq = common(tree, "wk"), common(tree, "wq")
    assert (wk.stored, wk.places, wk.lacking) == (31, 32, "15")
    assert (wq.stored, wq.places, wq.lacking) == (32, 32, "")


def test_a_member_that_is_missing_from_the_file_is_lacking_too() -> None:
    tree = tree_of(*(row(f"l.{n}.w", "missing" if n in (3, 4) else "same") for n in range(8)), row("l.0.b"))
    found = common(tree, "w")
    assert (found.stored, found.places, found.lacking) == (6, 8, "3-4")
    assert tree.counts(family(tree, "w")) == {"missing": 2, "same": 6}


def test_layers_without_experts_and_a_single_expert_are_lacking() -> None:
    rows = [row(f"l.{n}.norm") for n in range(6)]
    rows += [row(f"l.{n}.experts.{e}.w") for n in range(2, 6) for e in range(3) if (n, e) != (4, 1)]
    tree = tree_of(*rows)
    found = tree.common(family(tree, "experts.{0-2}.w"))
    assert (found.stored, found.places, found.lacking) == (11, 18, "0-1, 4.1")
    fifth = tree.children(family(tree, "experts.{0-2}.w"))[2]
    assert tree.title(fifth) == "l.4.experts.{0,2}.w"
    assert (tree.common(fifth).stored, tree.common(fifth).places, tree.common(fifth).lacking) == (2, 3, "4.1")


def test_shapes_types_and_files_that_differ_are_told_as_ranges() -> None:
    rows = [row(f"l.{n}.w", shape=(4, 8 * (n + 1)), dtype="fp32" if n == 2 else "bf16") for n in range(4)]
    found = common(tree_of(*rows), "l.{0-3}.w")
    assert (found.shapes, found.sizes, found.dtypes) == (4, ((4, 4), (8, 32)), ("bf16", "fp32"))
    assert found.files == ("w.pt",)


def test_ranks_that_differ_have_no_sizes() -> None:
    found = common(tree_of(row("l.0.w", shape=(4,)), row("l.1.w", shape=(4, 1)), row("l.2.w", shape=(4,))), "l.{0-2}.w")
    assert (found.shapes, found.sizes) == (2, None)


def test_scalars_and_shapes_that_are_not_known_are_no_fault() -> None:
    missing = [Row("missing", "", f"l.{n}.w", None, shape, "", 0, None) for n, shape in enumerate((None, (None, 4)))]
    found = common(tree_of(*missing, row("l.2.w", shape=(9, 4))), "l.{0-2}.w")
    assert found.sizes == ((9, 9), (4, 4))
    assert common(tree_of(row("l.0.s", shape=()), row("l.1.s", shape=())), "l.{0-1}.s").sizes == ()


def test_the_name_expected_has_ranges_too() -> None:
    tree = tree_of(*(row(f"layers.{n}.wq", "renamed", expected=f"model.layers.{n}.q_proj") for n in (2, 0, 1)))
    assert common(tree, "layers.{0-2}.wq").expected == "model.layers.{0-2}.q_proj"


@pytest.mark.parametrize("last", ["", "model.layers.1.other"])
def test_of_two_names_expected_none_is_told(last: str) -> None:
    rows = [row("l.0.w", expected="model.layers.0.w"), row("l.1.w", expected=last)]
    assert common(tree_of(*rows), "l.{0-1}.w").expected == ""


def test_numbers_in_words_and_long_or_padded_numbers_are_names() -> None:
    keys = ["a.00.w", "a.01.w", "a.12345.w", "a.w1", "a.w2"]
    assert list(grouped([key.replace(".", DOT) for key in keys], range(5))) == [key.replace(".", DOT) for key in keys]


def test_a_fifth_number_is_a_part_of_the_name() -> None:
    tree = tree_of(row("0.1.2.3.4"), row("0.1.2.3.5"), row("0.1.2.9.4"))
    assert list(lines(tree)) == ["0.1.2.{3,9} 3", "  4 2", "  5 1"]


def test_a_key_and_those_below_it_stand_side_by_side() -> None:
    tree = tree_of(row("a.0"), row("a.1"), row("a.0.b"), row("a.1.b"))
    assert list(lines(tree)) == ["a 4", "  {0-1} 2", "  {0-1}.b 2"]


def test_a_missing_name_without_numbers_that_stands_twice_is_no_fault() -> None:
    tree = tree_of(row("norm", "missing"), row("norm", "missing"))
    found = common(tree, "norm")
    assert (found.stored, found.places, found.lacking) == (0, 1, "")


def test_the_same_key_twice_gives_two_members() -> None:
    tree = tree_of(row("l.0.w"), row("l.0.w"), row("l.1.w"), row("b"), row("b"))
    assert sorted(tree.number(node) for node in leaves(tree, tree.root)) == list(range(5))


def test_a_member_that_is_alone_says_where_it_is() -> None:
    tree = tree_of(*(row(f"layers.{n}.wq") for n in range(4)), row("layers.2.bias"))
    assert list(lines(tree)) == ["layers.{0-3} 5", "  bias 1", "  wq 4"]
    found = common(tree, "bias")
    assert (found.stored, found.places, found.lacking) == (1, 4, "0-1, 3")
    assert [child.name for child in tree.children(family(tree, "bias"))] == ["layers.2"]


def test_some_of_the_rows_have_families_of_their_own() -> None:
    index = CheckpointIndex([row(f"l.{n}.{part}") for n in range(8) for part in ("a", "b")])
    tree = index.families([n for n, r in enumerate(index.rows) if r.key.endswith(".a") and r.key[2] in "346"])
    assert list(lines(tree)) == ["l.{3-4,6}.a 3"]
    assert tree.holds(6)
    assert not tree.holds(7)
    assert not tree.holds(0)


def told(tree: FamilyTree, node: Node | None = None) -> Iterator[tuple[object, ...]]:
    """Yield all that is said of each node, from top to bottom."""
    for child in tree.children(node or tree.root):
        what: object = tree.row(child) if child.is_row else None
        if isinstance(child, Family):
            what = tree.common(child)
        yield child.name, tree.title(child), child.depth, child.size, what
        yield from told(tree, child)


SEGMENT = st.sampled_from(["a", "b", "0", "1", "2"])
ONE_ROW = st.builds(
    lambda key, state, dtype, shape, expected: row(key, state, dtype, shape, expected and f"model.{expected}"),
    st.lists(SEGMENT, min_size=1, max_size=4).map(".".join),
    st.sampled_from(["same", "missing", "extra", "renamed"]),
    st.sampled_from(["bf16", "fp32"]),
    st.sampled_from([(2,), (2, 3), (4, 3)]),
    st.none() | st.just("") | st.lists(SEGMENT, min_size=1, max_size=3).map(".".join),
)


@given(st.lists(ONE_ROW, max_size=24), st.data())
def test_families_of_some_rows_are_those_that_they_have_alone(rows: list[Row], data: st.DataObject) -> None:
    numbers = data.draw(st.lists(st.sampled_from(range(len(rows))), unique=True).map(sorted) if rows else st.just([]))
    index, alone = CheckpointIndex(rows), CheckpointIndex([rows[n] for n in numbers])
    assert list(told(index.families(numbers))) == list(told(alone.families()))
    fewer = numbers[::2]
    again = CheckpointIndex([rows[n] for n in fewer])
    assert list(told(index.families(fewer))) == list(told(again.families())), "whatever was asked before"


def test_the_walk_over_differences_goes_through_families() -> None:
    rows = [row(f"l.{n}.w", "missing" if n in (3, 11) else "same") for n in range(12)]
    tree = tree_of(*rows, row("a", "extra"))
    node, seen = None, []
    for _ in range(4):
        node = tree.next_row(node, DIFFERENT)
        assert node is not None
        seen.append(tree.row(node).path)
    assert seen == ["a", "l.3.w", "l.11.w", "a"]


def test_a_family_has_one_name_in_every_tree() -> None:
    rows = [row(f"l.{n}.e.{e}.w") for n in range(3) for e in range(3)]
    whole, part = tree_of(*rows), tree_of(*rows[2:])
    for path in ((0,), (0, 1)):
        one, other = whole.root, part.root
        for place in path:
            one, other = whole.children(one)[place], part.children(other)[place]
        assert whole.prefix(one) == part.prefix(other)
    assert whole.prefix(whole.children(whole.root)[0]) != whole.prefix(whole.children(whole.children(whole.root)[0])[0])


@given(st.lists(st.text(alphabet="a0.\x01\x022", max_size=9), max_size=30))
def test_every_row_is_in_the_tree_once_and_can_be_located(keys: list[str]) -> None:
    tree = tree_of(*(row(key) for key in keys))
    assert sorted(tree.number(node) for node in leaves(tree, tree.root)) == list(range(len(keys)))
    for number in range(len(keys)):
        node = tree.locate(number)
        assert tree.number(node) == number
        assert node.parent is not None
        assert tree.children(node.parent)[node.place] is node
        for above in node.ancestors():
            assert not isinstance(above, Family) or tree.common(above).stored == above.size


@given(st.lists(st.lists(st.sampled_from(["a", "b", "0", "3", "17", "007"]), min_size=1, max_size=6), max_size=30))
def test_groups_are_those_of_looking_at_each_key(keys: list[list[str]]) -> None:
    names = sorted(DOT.join(key) for key in keys)
    wanted: dict[str, list[tuple[int, ...]]] = {}
    for name in names:
        shown, numbers = [], []
        for segment in name.split(DOT):
            is_number = segment in ("0", "3", "17") and len(numbers) < 4
            shown.append("\2" if is_number else segment)
            numbers += [int(segment)] if is_number else []
        wanted.setdefault(DOT.join(shown), []).append(tuple(numbers))
    found = grouped(names, range(len(names)))
    assert {
        name: sorted(tuple(number_at(code, n) for n in range(name.count("\2"))) for code in codes)
        for name, (codes, _) in found.items()
    } == {name: sorted(numbers) for name, numbers in wanted.items()}
    assert sorted(place for _, places in found.values() for place in places) == list(range(len(names)))


def test_a_name_of_very_many_parts_is_no_fault() -> None:
    rows = [row(".".join(["a"] * 3_000) + f".{n}") for n in range(3)]
    tree = tree_of(*rows)
    assert sorted(tree.number(node) for node in leaves(tree, tree.root)) == [0, 1, 2]


def test_ninety_thousand_keys_become_six_lines() -> None:
    parts = ("w1", "w2", "w3")
    rows = [row(f"model.layers.{n}.mlp.experts.{e}.{p}") for n in range(90) for e in range(334) for p in parts]
    tree = CheckpointIndex([*rows, row("model.norm")]).families().prepare()
    assert len(list(lines(tree))) == 6
    loaded = family(tree, "w2")
    assert loaded.children is None, "members are not made before they are looked at"
    assert tree.row(tree.locate(len(rows) - 1)).key == "model.layers.89.mlp.experts.333.w3"


def test_ranges_are_short() -> None:
    assert braced(range(32)) == "{0-31}"
    assert ranges(range(0, 40, 2)) == "0, 2, 4, 6, 8, …, 38"
    assert lacking_text([range(3), range(9)], {(0, 0), (1, 0)}) == "2, 0.1, 0.2, 0.3, …"
