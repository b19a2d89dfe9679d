"""The key tree: filter, chips, walk over differences, sticky selection, layouts."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication, QMenu
from pytestqt.qtbot import QtBot

from ckpt_gui.core.diff import Row
from ckpt_gui.core.tensors import TensorRef
from ckpt_gui.gui.main_window import MainWindow
from ckpt_gui.gui.models.lazy_rows import BLOCK
from ckpt_gui.gui.models.tree_columns import Column, Mode
from ckpt_gui.gui.panels import tree_filter
from ckpt_gui.gui.panels.tree_panel import TreePanel
from ckpt_gui.gui.settings import Settings
from tests.gui.checkpoints import llama_refs, source
from tests.gui.windows import make_window, snapshot_of

WQ = "_orig_mod.layers.0.attention.wq.weight"


@pytest.fixture
def window(qtbot: QtBot, qapp: QApplication) -> MainWindow:
    return make_window(qtbot, qapp, source())


@pytest.fixture
def panel(window: MainWindow) -> TreePanel:
    return window.tree_panel


def shown(panel: TreePanel) -> list[str]:
    """Return the keys in the list."""
    rows = (panel.model.row(panel.model.index(n, 0)) for n in range(panel.model.rowCount()))
    return [row.path for row in rows if row is not None]


def test_typing_filters_after_a_moment(panel: TreePanel, qtbot: QtBot) -> None:
    qtbot.keyClicks(panel.filter_box, "wq !layers.0")
    assert not panel.model.flat, "not yet"
    qtbot.waitUntil(lambda: panel.model.flat)
    assert shown(panel) == ["_orig_mod.layers.1.attention.wq.weight"]
    assert panel.bar.counter.text() == f"1 of {len(panel.model.tree.rows)}"


def test_enter_filters_at_once_and_escape_clears(panel: TreePanel, qtbot: QtBot) -> None:
    qtbot.keyClicks(panel.filter_box, "wq")
    qtbot.keyClick(panel.filter_box, Qt.Key.Key_Return)
    assert len(shown(panel)) == 2
    qtbot.keyClick(panel.filter_box, Qt.Key.Key_Escape)
    assert panel.filter_box.text() == ""
    assert not panel.model.flat


def test_chips_are_switches_with_live_counts(panel: TreePanel, qtbot: QtBot) -> None:
    assert panel.bar.chips["transform"].count == 4
    qtbot.mouseClick(panel.bar.chips["transform"], Qt.MouseButton.LeftButton)
    assert panel.filter_box.text() == "state:transform"
    assert all("wq" in key or "wk" in key for key in shown(panel))
    panel.set_filter("wq state:transform")
    assert panel.bar.chips["transform"].count == 2, "counts follow the rest of the filter"
    assert panel.bar.chips["transform"].isChecked()
    qtbot.mouseClick(panel.bar.chips["transform"], Qt.MouseButton.LeftButton)
    assert panel.filter_box.text() == "wq"


def test_chips_without_rows_are_away_except_the_two_that_matter(panel: TreePanel) -> None:
    shown_chips = [state for state, chip in panel.bar.chips.items() if not chip.isHidden()]
    assert shown_chips == ["missing", "extra", "transform", "renamed"]


def test_a_filter_without_hits_says_so_and_offers_a_way_out(panel: TreePanel, qtbot: QtBot) -> None:
    panel.set_filter("nothing-like-this")
    assert panel._stack.currentWidget() is panel._nothing
    qtbot.mouseClick(panel._clear, Qt.MouseButton.LeftButton)
    assert panel._stack.currentWidget() is not panel._nothing
    assert panel.view.isVisible()


def test_a_filter_over_many_rows_runs_in_a_job(panel: TreePanel, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree_filter, "MANY", 3)
    panel.set_filter("wq")
    panel.set_filter("wk")
    assert panel._session.jobs.running()
    qtbot.waitUntil(lambda: not panel._session.jobs.running())
    assert all("wk" in key for key in shown(panel))


def test_selection_is_told_and_survives_filter_and_layout(panel: TreePanel) -> None:
    said: list[Row | None] = []
    panel.selected.connect(said.append)
    assert panel.select_key(WQ)
    assert said[-1] is not None
    assert said[-1].key == WQ
    panel.set_filter("wq")
    assert said[-1] is not None
    assert said[-1].key == WQ
    panel.clear_filter()
    panel._session.change_target(layout="torchtune")
    assert said[-1] is not None
    assert said[-1].key == WQ
    assert said[-1].expected == "layers.0.attn.q_proj.weight"
    assert not panel.select_key("no such key")


def test_unfolded_groups_stay_unfolded(panel: TreePanel) -> None:
    def unfolded() -> set[str]:
        return panel.view.tree.unfolded()

    before = unfolded()
    assert before, "a small tree is unfolded on opening"
    panel.view.tree.collapseAll()
    panel.view.tree.expand(panel.model.index(0, 0))
    one = unfolded()
    assert len(one) == 1
    panel._session.change_target(layout="same")
    assert unfolded() == one


def test_next_and_previous_difference(panel: TreePanel) -> None:
    said: list[Row | None] = []
    panel.selected.connect(said.append)
    panel.view.step(forward=True)
    panel.view.step(forward=True)
    first, second = said
    assert first is not None
    assert second is not None
    panel.view.step(forward=False)
    assert said[-1] == first
    panel.set_filter("wq")
    panel.view.step(forward=True)
    panel.view.step(forward=True)
    assert {row.key for row in said[-2:] if row} <= set(shown(panel))


def test_layout_combo_asks_the_session(panel: TreePanel, qtbot: QtBot) -> None:
    assert panel.bar.layout_combo.currentData() == "hf"
    panel.bar.layout_combo.activated.emit(panel.bar.layout_combo.findData("meta"))
    snapshot = panel._session.snapshot
    assert snapshot is not None
    assert snapshot.decisions.target.layout == "meta"
    assert panel.bar.layout_combo.currentData() == "meta"
    panel._session.undo_stack.undo()
    assert panel.bar.layout_combo.currentData() == "hf"


def test_keys_and_rows_are_copied(panel: TreePanel) -> None:
    panel.select_key(WQ)
    panel.copying.copy_keys()
    assert QGuiApplication.clipboard().text() == WQ
    panel.copying.copy_rows()
    assert QGuiApplication.clipboard().text().split("\t")[:2] == ["transform", WQ]


def test_keys_of_a_step_can_be_shown_alone(window: MainWindow) -> None:
    panel = window.tree_panel
    assert window.session.snapshot is not None
    step = next(s for s in window.session.snapshot.export.steps if s.id == "permute")
    window.guide.show_step(step.keys)
    assert len(shown(panel)) == 4
    window.guide.show_step(())
    assert not panel.model.flat


def test_missing_rows_show_no_key_in_the_file(qtbot: QtBot, qapp: QApplication) -> None:
    panel = make_window(qtbot, qapp, source(llama_refs("hf"), without="layers.1")).tree_panel
    panel.show_state("missing")
    assert panel.model.index(0, 1).data() == "not in the file"
    assert panel.model.index(0, 2).data().startswith("model.layers.1.")


def test_extra_tensors_can_be_left_out_and_others_cannot(qtbot: QtBot, qapp: QApplication) -> None:
    refs = [*llama_refs(prefix="_orig_mod."), TensorRef("_orig_mod.odd", "bf16", (2,), (), "w.pt", "odd")]
    window = make_window(qtbot, qapp, source(refs))
    panel, session = window.tree_panel, window.session
    assert session.snapshot is not None
    panel.select_key("_orig_mod.odd")
    menu = QMenu()
    qtbot.addWidget(menu)
    panel.view.menu_opening.emit(menu, panel.view.selected_rows())
    assert "Leave out of the export" in [action.text() for action in menu.actions()]
    window.actions_by_id["drop"].trigger()
    assert session.snapshot.decisions.policy.dropped == {"_orig_mod.odd"}
    assert all(entry.ref.key != "_orig_mod.odd" for entry in session.snapshot.export.entries)
    window.actions_by_id["drop"].trigger()
    assert session.snapshot.decisions.policy.dropped == frozenset()
    panel.select_key(WQ)
    window.actions_by_id["drop"].trigger()
    assert session.snapshot.decisions.policy.dropped == frozenset()


def test_selection_size_is_told(window: MainWindow) -> None:
    window.tree_panel.select_key(WQ)
    assert window.status_bar.selection.text() == "1 selected, 128 B"


def test_escape_in_the_tree_shows_everything_again(window: MainWindow, qtbot: QtBot) -> None:
    panel = window.tree_panel
    panel.set_filter("wq")
    qtbot.keyClick(panel.view.tree, Qt.Key.Key_Escape)
    assert panel.filter_box.text() == ""
    assert not panel.model.flat


def test_showing_everything_again_lets_go_of_the_step(window: MainWindow, qtbot: QtBot) -> None:
    plan = window.plan_panel.tree
    plan.setCurrentItem(plan.topLevelItem(1))
    assert window.tree_panel.only
    qtbot.keyClick(window.tree_panel.view.list, Qt.Key.Key_Escape)
    assert plan.selectedItems() == []
    assert window.tree_panel.only == ""


def test_a_filter_that_hides_the_selection_empties_the_status(window: MainWindow) -> None:
    window.tree_panel.select_key(WQ)
    assert window.status_bar.selection.text()
    window.tree_panel.set_filter("norm")
    assert window.status_bar.selection.text() == ""


def test_each_name_gets_the_room_that_it_needs(window: MainWindow) -> None:
    window.resize(2200, 900)
    panel = window.tree_panel
    panel.columns.share_room()
    for column in (Column.KEY, Column.EXPECTED):
        assert panel.view.tree.header().sectionSize(column) >= panel.view.tree.sizeHintForColumn(column)


def many(qtbot: QtBot, qapp: QApplication, count: int) -> MainWindow:
    refs = [TensorRef(f"a.k{number:05}", "bf16", (2,), (), "w.pt", "x") for number in range(count)]
    refs += [TensorRef("b.last", "bf16", (3,), (), "w.pt", "y")]
    return make_window(qtbot, qapp, source(refs))


def test_a_large_group_goes_on_where_its_end_comes_into_sight(qtbot: QtBot, qapp: QApplication) -> None:
    panel = many(qtbot, qapp, 8 * BLOCK).tree_panel
    panel.set_mode("tree")
    view = panel.view.tree
    group = view.keys.index(0, 0)
    view.unfold_one(group)
    known = view.keys.rowCount(group)
    assert BLOCK <= known <= 4 * BLOCK, "Qt itself asks for a block or two"
    view.scrollTo(view.keys.index(known - 1, 0, group))
    qtbot.waitUntil(lambda: view.keys.rowCount(group) > known)


@pytest.mark.parametrize("mode", ["tree", "flat", "families"])
def test_the_next_difference_is_found_beyond_what_is_shown(qtbot: QtBot, qapp: QApplication, mode: Mode) -> None:
    panel = many(qtbot, qapp, BLOCK + 7).tree_panel
    panel.set_mode(mode)
    assert panel.mode == mode
    assert panel.select_key("a.k00000")
    panel.view.step(forward=False)
    assert [row.path for row in panel.view.selected_rows()] == ["b.last"]
    panel.view.step(forward=True)
    assert [row.path for row in panel.view.selected_rows()] == ["a.k00000"]


def test_a_selection_far_down_is_gone_to_in_every_mode(qtbot: QtBot, qapp: QApplication) -> None:
    panel = many(qtbot, qapp, 8 * BLOCK).tree_panel
    key = panel.model.tree.rows[8 * BLOCK - 3].path
    assert panel.mode == "families", "the default for so many"
    assert panel.select_key(key)
    for mode in ("flat", "tree", "families", "flat"):
        panel.set_mode(mode)
        assert [row.path for row in panel.view.selected_rows()] == [key]
        view = panel.view.current
        assert view.viewport().rect().intersects(view.visualRect(view.currentIndex())), "in sight"


def test_a_filter_that_can_not_be_read_is_marked_and_changes_nothing(panel: TreePanel) -> None:
    panel.set_filter("wq")
    before = shown(panel)
    panel.set_filter("wq dytpe:bf16")
    sentence = "`dytpe:bf16` at character 4 of the filter: there is no dytpe:; did you mean dtype:?"
    assert panel.filter_box.error.startswith(sentence)
    assert panel.filter_box.accessibleDescription().startswith(sentence)
    assert "did you mean dtype:" in panel.filter_box.toolTip()
    assert panel.filter_box.property("wrong") is True
    assert shown(panel) == before
    panel.set_filter("wq dtype:bfloat16 layer:1")
    assert panel.filter_box.error == ""
    assert panel.filter_box.property("wrong") is False
    assert "dtype:bf16" in panel.filter_box.toolTip(), "an example of each term"
    assert shown(panel) == ["_orig_mod.layers.1.attention.wq.weight"]


def test_a_new_snapshot_is_shown_whatever_the_filter_says(window: MainWindow, panel: TreePanel) -> None:
    panel.set_filter("state:")
    window.session.publish(snapshot_of(source(), "meta"))
    assert panel.model.tree is window.session.snapshot.index
    assert not panel.model.flat
    assert "nothing stands after it" in panel.filter_box.error


def test_up_and_down_go_through_the_filters_used_before(panel: TreePanel, qtbot: QtBot) -> None:
    box = panel.filter_box
    box.remember([])
    for text in ("wq", "wk", "state:"):
        box.setText(text)
        qtbot.keyClick(box, Qt.Key.Key_Return)
    assert box.history == ("wk", "wq"), "one that can not be read is not kept"
    box.setText("draft")
    seen = []
    for key in (Qt.Key.Key_Up, Qt.Key.Key_Up, Qt.Key.Key_Up, Qt.Key.Key_Down, Qt.Key.Key_Down):
        qtbot.keyClick(box, key)
        seen.append(box.text())
    assert seen == ["wk", "wq", "wq", "wk", "draft"]
    assert Settings().filters()[:2] == ["wk", "wq"]


def test_the_builder_edits_the_text(panel: TreePanel, qtbot: QtBot) -> None:
    panel.set_filter("attention !dtype:fp32 size:>1 state:missing|extra")
    qtbot.mouseClick(panel.bar.build_button, Qt.MouseButton.LeftButton)
    builder = panel.bar.builder
    assert builder.isVisible()
    assert builder.choices["state"].currentText() == "missing|extra", "two at once are shown as they are written"
    assert builder.choices["dtype"].currentText() == "Any"
    assert [builder.choices["dtype"].itemText(n) for n in range(builder.choices["dtype"].count())] == ["Any", "bf16"]
    assert builder.lines["size"].text() == ">1"
    state = builder.choices["state"]
    state.setCurrentIndex(state.findData("transform"))
    state.activated.emit(state.currentIndex())
    builder.lines["size"].clear()
    builder.lines["size"].textEdited.emit("")
    qtbot.keyClicks(builder.lines["layer"], "1")
    assert panel.filter_box.text() == "attention !dtype:fp32 state:transform layer:1"
    qtbot.waitUntil(lambda: len(shown(panel)) == 2)
    builder.close()


def test_the_builder_offers_what_was_used_before(panel: TreePanel) -> None:
    panel.filter_box.remember(["wk layer:0"])
    panel.bar.builder.open_below(panel.bar.build_button, panel.bar.dtypes)
    before = panel.bar.builder.before
    assert [before.itemText(n) for n in range(before.count())] == ["wk layer:0"]
    before.setCurrentIndex(0)
    before.activated.emit(0)
    assert panel.filter_box.text() == "wk layer:0"
    assert not panel.bar.builder.isVisible()
