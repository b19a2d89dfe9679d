"""The adapter of the key tree keeps Qt's rules, in both modes and at any size."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QModelIndex, Qt
from PySide6.QtWidgets import QApplication
from pytestqt.modeltest import ModelTester

from ckpt_gui.core.diff import Row
from ckpt_gui.core.tree import CheckpointIndex
from ckpt_gui.gui.models.lazy_rows import BLOCK
from ckpt_gui.gui.models.tree_columns import Column
from ckpt_gui.gui.models.tree_model import STATES_ROLE, TreeModel
from ckpt_gui.gui.theme import Theme
from tests.gui.checkpoints import source
from tests.gui.windows import snapshot_of


@pytest.fixture
def model(qapp: QApplication) -> TreeModel:
    made = TreeModel(Theme(qapp, "light"))
    made.show_rows(snapshot_of(source(without="layers.1")).index)
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


def test_the_list_keeps_the_rules(model: TreeModel, qtmodeltester: ModelTester) -> None:
    model.show_rows(model.tree, [3, 1, 2])
    qtmodeltester.check(model)
    assert [model.row(model.index(n, 0)) for n in range(3)] == [model.tree.rows[n] for n in (3, 1, 2)]


def test_an_empty_model_keeps_the_rules(qapp: QApplication, qtmodeltester: ModelTester) -> None:
    qtmodeltester.check(TreeModel(Theme(qapp, "light")))


def test_a_long_list_comes_in_blocks(qapp: QApplication) -> None:
    rows = [Row("same", f"k{n}", f"k{n}", (2,), (2,), "bf16", 4, None) for n in range(2 * BLOCK + 5)]
    model = TreeModel(Theme(qapp, "light"))
    index = CheckpointIndex(rows)
    model.show_rows(index, range(len(rows)))
    assert model.rowCount() == BLOCK
    place = model.index_of(index.locate(len(rows) - 1))
    assert place.row() == len(rows) - 1
    assert model.rowCount() == len(rows)


def test_a_large_group_comes_in_blocks(qapp: QApplication, qtmodeltester: ModelTester) -> None:
    rows = [Row("same", f"g.k{n}", f"g.k{n}", (2,), (2,), "bf16", 4, None) for n in range(2 * BLOCK + 5)]
    model = TreeModel(Theme(qapp, "light"))
    model.show_rows(CheckpointIndex(rows))
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
        assert model.row(model.index_of(model.tree.locate(number))) is row


def test_cells_say_state_shape_and_size(model: TreeModel) -> None:
    number = model.tree.find("_orig_mod.layers.0.attention.wq.weight")
    assert number is not None
    index = model.index_of(model.tree.locate(number))
    cells = [model.index(index.row(), c, index.parent()).data() for c in Column]
    assert cells == ["⟲ transform", "wq.weight", "model.layers.0.self_attn.q_proj.weight", "8 × 8", "bf16", "128 B"]
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
    model = TreeModel(Theme(qapp, "light"))
    model.show_rows(CheckpointIndex([Row("same", "<b>\x1b\u202e", "<b>", (1,), None, "bf16", 2, None)]), [0])
    index = model.index(0, Column.EXPECTED)
    assert "<b>" not in index.data(Qt.ItemDataRole.ToolTipRole)
    model.show_rows(model.tree)
    assert "\x1b" not in model.index(0, Column.KEY).data()
    assert "\u202e" not in model.index(0, Column.KEY).data()


def test_unknown_roles_and_bad_indexes_give_nothing(model: TreeModel) -> None:
    assert model.index(0, 0).data(Qt.ItemDataRole.UserRole + 99) is None
    assert model.data(QModelIndex()) is None
    assert not model.index(999, 0).isValid()
