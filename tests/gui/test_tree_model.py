"""The adapter of the key tree keeps Qt's rules, in both modes and at any size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import pytest
from PySide6.QtCore import QModelIndex, Qt
from PySide6.QtGui import QColor, QPalette
from PySide6.QtTest import QAbstractItemModelTester
from PySide6.QtWidgets import QApplication, QStyledItemDelegate, QStyleOptionViewItem
from pytestqt.modeltest import ModelTester

from ckpt_gui.core.diff import STATES, Row
from ckpt_gui.core.filtering import Query, read_query
from ckpt_gui.core.tensors import TensorRef
from ckpt_gui.core.tree import CheckpointIndex, Hits
from ckpt_gui.gui.models.key_looks import STATES_ROLE, KeyLooks
from ckpt_gui.gui.models.lazy_rows import BLOCK
from ckpt_gui.gui.models.list_model import ListModel
from ckpt_gui.gui.models.tree_columns import Column, Mode
from ckpt_gui.gui.models.tree_model import TreeModel
from ckpt_gui.gui.panels.tree_filter import find
from ckpt_gui.gui.theme import Theme
from tests.gui.checkpoints import source
from tests.gui.windows import snapshot_of


@pytest.fixture
def model(qapp: QApplication) -> TreeModel:
    made = tree_model(qapp)
    made.show_tree(snapshot_of(source(without="layers.1")).index)
    return made


def tree_model(app: QApplication) -> TreeModel:
    return TreeModel(KeyLooks(Theme(app, "light")))


def list_model(app: QApplication, index: CheckpointIndex, numbers: Sequence[int]) -> ListModel:
    made = ListModel(KeyLooks(Theme(app, "light")))
    made.show_rows(index, Hits(numbers, index.codes(numbers)))
    return made


def fetch_all(model: TreeModel, parent: QModelIndex) -> int:
    while model.canFetchMore(parent):
        model.fetchMore(parent)
    count = model.rowCount(parent)
    return count + sum(fetch_all(model, model.index(row, 0, parent)) for row in range(count))


def test_the_tree_keeps_the_rules(model: TreeModel, qtmodeltester: ModelTester) -> None:
    qtmodeltester.check(model)
    assert fetch_all(model, QModelIndex()) > len(model.tree.rows)
    qtmodeltester.check(model)


def test_the_list_keeps_the_rules(model: TreeModel, qapp: QApplication, qtmodeltester: ModelTester) -> None:
    index = cast(CheckpointIndex, model.tree)
    made = list_model(qapp, index, [1, 2, 5])
    qtmodeltester.check(made)
    assert [made.row(made.index(n, 0)) for n in range(3)] == [index.rows[n] for n in (1, 2, 5)]
    assert [made.holds(n) for n in (0, 1, 5, 6)] == [False, True, True, False]
    made.show_rows(index, index.select(Query()))
    qtmodeltester.check(made)


@pytest.mark.parametrize("mode", ["tree", "families"])
@pytest.mark.parametrize("text", ["wq", "norm state:missing", "nothing at all"])
def test_what_a_filter_leaves_keeps_the_rules(
    model: TreeModel, qtmodeltester: ModelTester, text: str, mode: Mode
) -> None:
    found = find(cast(CheckpointIndex, model.tree), read_query(text, STATES), None, mode)
    assert found.tree is not None
    model.show_tree(found.tree)
    fetch_all(model, QModelIndex())
    qtmodeltester.check(model)


@pytest.mark.parametrize("mode", ["tree", "families"])
def test_the_rules_are_kept_while_other_rows_come(model: TreeModel, mode: Mode) -> None:
    tester = QAbstractItemModelTester(model, QAbstractItemModelTester.FailureReportingMode.Warning)  # a warning fails
    tester.setUseFetchMore(False)  # it would do so in the middle of a reset, and blame the model
    for layout, text in (("meta", ""), ("hf", "wq"), ("hf", "")):
        index = snapshot_of(source(), layout).index
        found = find(index, read_query(text, STATES), None, mode)
        assert found.tree is not None
        model.show_tree(found.tree)
        fetch_all(model, QModelIndex())


def test_families_keep_the_rules(model: TreeModel, qtmodeltester: ModelTester) -> None:
    model.show_tree(cast(CheckpointIndex, model.tree).families())
    qtmodeltester.check(model)
    assert fetch_all(model, QModelIndex()) > len(model.tree.rows)
    qtmodeltester.check(model)
    for number, row in enumerate(model.tree.rows):
        assert model.row(model.index_of(model.tree.locate(number))) == row


def test_an_empty_model_keeps_the_rules(qapp: QApplication, qtmodeltester: ModelTester) -> None:
    qtmodeltester.check(tree_model(qapp))
    qtmodeltester.check(list_model(qapp, CheckpointIndex(()), ()))


def test_a_long_list_is_known_at_once(qapp: QApplication) -> None:
    rows = [Row("same", f"k{n}", f"k{n}", (2,), (2,), "bf16", 4, None) for n in range(2 * BLOCK + 5)]
    assert list_model(qapp, CheckpointIndex(rows), range(len(rows))).rowCount() == len(rows)


def test_typing_goes_to_the_next_key_that_begins_so(qapp: QApplication) -> None:
    rows = [Row("same", key, key, (2,), (2,), "bf16", 4, None) for key in ("alpha", "beta", "bravo", "gamma")]
    made = list_model(qapp, CheckpointIndex(rows), range(4))
    assert [i.row() for i in made.match(made.index(2, 0), Qt.ItemDataRole.DisplayRole, "B")] == [2]
    assert [i.row() for i in made.match(made.index(3, 0), Qt.ItemDataRole.DisplayRole, "b")] == [1]
    assert made.match(made.index(0, 0), Qt.ItemDataRole.DisplayRole, "x") == []


def test_a_family_says_its_range_and_what_is_irregular(qapp: QApplication) -> None:
    rows = [
        Row("missing", "", f"l.{n}.w", None, (8, 4), "bf16", 0, None)
        if n == 2
        else Row(
            "same", f"l.{n}.w", f"l.{n}.w", (8, 4 + 4 * (n == 3)), (8, 4), "bf16", 64, TensorRef("x", "bf16", (1,))
        )
        for n in range(5)
    ]
    model = tree_model(qapp)
    model.show_tree(CheckpointIndex(rows).families())
    cells = [model.index(0, column).data() for column in Column]
    assert cells[Column.KEY] == "l.{0-4}.w"
    assert cells[Column.EXPECTED] == "l.{0-4}.w"
    assert cells[Column.COUNT] == "4 of 5"
    assert cells[Column.SHAPE] == "8 × 4–8"
    assert cells[Column.DTYPE] == "bf16"
    key = model.index(0, Column.KEY)
    assert "4 of 5; none at 2" in key.data(Qt.ItemDataRole.ToolTipRole)
    spoken = key.data(Qt.ItemDataRole.AccessibleTextRole)
    assert spoken.startswith("family l.{0-4}.w, 5 tensors: 1 missing, 4 same, 8 by 4–8, 4 of 5; none at 2")


def test_a_large_group_comes_in_blocks(qapp: QApplication, qtmodeltester: ModelTester) -> None:
    rows = [Row("same", f"g.k{n}", f"g.k{n}", (2,), (2,), "bf16", 4, None) for n in range(2 * BLOCK + 5)]
    model = tree_model(qapp)
    model.show_tree(CheckpointIndex(rows))
    group = model.index(0, 0)
    assert model.rowCount(group) == 0
    for known in (BLOCK, 2 * BLOCK, 2 * BLOCK + 5):
        assert model.canFetchMore(group)
        model.fetchMore(group)
        assert model.rowCount(group) == known
    assert not model.canFetchMore(group)
    qtmodeltester.check(model)


def test_every_row_can_be_found_from_its_node(model: TreeModel) -> None:
    for number, row in enumerate(model.tree.rows):
        assert model.row(model.index_of(model.tree.locate(number))) == row


def test_cells_say_state_shape_and_size(model: TreeModel) -> None:
    number = model.tree.find("_orig_mod.layers.0.attention.wq.weight")
    assert number is not None
    index = model.index_of(model.tree.locate(number))
    cells = [model.index(index.row(), c, index.parent()).data() for c in Column]
    assert cells == [
        "⟲ transform", "wq.weight", "model.layers.0.self_attn.q_proj.weight", "", "8 × 8", "bf16", "128 B", "w.pt", "",
    ]  # fmt: skip
    assert index.data(STATES_ROLE) == (("transform", 0),)
    spoken = model.index(index.row(), Column.KEY, index.parent()).data(Qt.ItemDataRole.AccessibleTextRole)
    assert spoken.startswith("transform, _orig_mod.layers.0.attention.wq.weight, expected model.layers.0.self_attn")
    assert "8 by 8" in spoken


def test_a_group_says_the_union_of_its_states(model: TreeModel) -> None:
    groups = [model.index(row, 0) for row in range(model.rowCount())]
    found = {model.index(g.row(), Column.KEY).data(): dict(g.data(STATES_ROLE)) for g in groups}
    assert found == {"_orig_mod": {"missing": 9, "transform": 2, "renamed": 10}}


def test_missing_rows_stand_among_their_siblings(model: TreeModel) -> None:
    layers = model.tree.children(model.tree.children(model.tree.root)[0])[0]
    counts = {n.name: model.tree.counts(n).get("missing", 0) for n in model.tree.children(layers)}
    assert counts == {"0": 0, "1": 9}


def test_foreign_text_is_escaped(qapp: QApplication) -> None:
    index = CheckpointIndex([Row("same", "<b>\x1b\u202e", "<b>", (1,), None, "bf16", 2, None)])
    flat = list_model(qapp, index, [0])
    assert "<b>" not in flat.index(0, Column.EXPECTED).data(Qt.ItemDataRole.ToolTipRole)
    model = tree_model(qapp)
    model.show_tree(index)
    assert "\x1b" not in model.index(0, Column.KEY).data()
    assert "\u202e" not in model.index(0, Column.KEY).data()


def test_unknown_roles_and_bad_indexes_give_nothing(model: TreeModel) -> None:
    assert model.index(0, 0).data(Qt.ItemDataRole.UserRole + 99) is None
    assert model.data(QModelIndex()) is None
    assert not model.index(999, 0).isValid()


class Watched(QStyledItemDelegate):
    """Tells what a view is told of a cell."""

    def told(self, index: QModelIndex) -> tuple[str, str, Qt.AlignmentFlag, QColor]:
        box = QStyleOptionViewItem()
        self.initStyleOption(box, index)
        return box.text, box.font.key(), box.displayAlignment, QColor(box.palette.color(QPalette.ColorRole.Text))


@pytest.mark.parametrize("flat", [False, True])
def test_all_roles_asked_at_once_give_what_each_gives(model: TreeModel, qapp: QApplication, flat: bool) -> None:
    index = snapshot_of(source(without="layers.1")).index
    shown = list_model(qapp, index, range(len(index.rows))) if flat else model
    looks, delegate = shown.data, Watched()
    for column in Column:
        cell = shown.index(0, column)
        text, font, side, colour = delegate.told(cell)
        assert text == looks(cell, Qt.ItemDataRole.DisplayRole)
        assert font == (looks(cell, Qt.ItemDataRole.FontRole) or QStyleOptionViewItem().font).key()
        assert side == Qt.AlignmentFlag(looks(cell, Qt.ItemDataRole.TextAlignmentRole))
        brush = looks(cell, Qt.ItemDataRole.ForegroundRole)
        assert brush is None or brush.color() == colour
