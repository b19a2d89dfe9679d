"""The key tree in its three modes: families, what is kept over mode, filter and reload, unfolding, the strip."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QItemSelectionModel, QPoint, QPointF, Qt, QThreadPool
from PySide6.QtGui import QGuiApplication, QMouseEvent
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from ckpt_gui.core.row_tree import CODE, Node
from ckpt_gui.core.stats import StatsCache, cache, tensor_stats
from ckpt_gui.core.tensors import TensorRef
from ckpt_gui.desktop.resources import SAMPLE, resource
from ckpt_gui.gui.main_window import MainWindow
from ckpt_gui.gui.models.key_looks import STATES_ROLE
from ckpt_gui.gui.models.tree_columns import FAMILIES_FROM, Column, Mode
from ckpt_gui.gui.panels import tree_copy, tree_filter
from ckpt_gui.gui.panels.filter_bar import FilterBar
from ckpt_gui.gui.panels.tree_panel import TreePanel
from ckpt_gui.gui.panels.tree_unfolding import MOST_UNASKED
from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.widgets.overview_strip import OverviewStrip
from ckpt_gui.gui.wording import figure_text
from tests.gui.checkpoints import llama_refs, source
from tests.gui.windows import make_window, snapshot_of

MODES: tuple[Mode, ...] = ("tree", "flat", "families")
WQ = "_orig_mod.layers.{}.attention.wq.weight"


@pytest.fixture
def window(qtbot: QtBot, qapp: QApplication) -> MainWindow:
    return make_window(qtbot, qapp, source(without="layers.1.attention.wk"))


@pytest.fixture
def panel(window: MainWindow) -> TreePanel:
    return window.tree_panel


def texts(panel: TreePanel, column: Column = Column.KEY) -> list[str]:
    """Return what a column of the tree says, line by line."""
    keys = panel.view.tree.keys
    indexes = (keys.index_of(node) for node in panel.view.tree.lines())
    return [index.siblingAtColumn(column).data() for index in indexes]


def chosen(panel: TreePanel) -> list[str]:
    return [row.path for row in panel.view.selected_rows()]


def select_too(panel: TreePanel, key: str) -> None:
    """Select a row besides what is selected."""
    number = panel.selection.index.find(key)
    assert number is not None
    flags = QItemSelectionModel.SelectionFlag.Select | QItemSelectionModel.SelectionFlag.Rows
    panel.view.current.selectionModel().select(panel.view._index_of(number), flags)


def test_families_draw_layers_together_and_tell_what_is_lacking(window: MainWindow, panel: TreePanel) -> None:
    window.actions_by_id["families"].trigger()
    assert panel.mode == "families"
    assert panel.bar.modes.button(2).isChecked()
    assert "layers.{0-1}" in texts(panel)
    told = zip(texts(panel, Column.COUNT), texts(panel, Column.EXPECTED), strict=True)
    lines = dict(zip(texts(panel), told, strict=True))
    assert lines["wq.weight"] == ("2", "model.layers.{0-1}.self_attn.q_proj.weight")
    assert lines["wk.weight"] == ("1 of 2", "model.layers.{0-1}.self_attn.k_proj.weight")
    keys = panel.view.tree.keys
    family = next(node for node in panel.view.tree.lines() if node.name == "wk.weight")
    index = keys.index_of(family)
    assert dict(index.data(STATES_ROLE)) == {"missing": 1, "transform": 1}
    assert index.siblingAtColumn(Column.STATE).data(Qt.ItemDataRole.AccessibleTextRole) == "1 missing, 1 transform"
    panel.view.tree.unfold_one(index)
    members = [keys.index(row, Column.KEY, index).data() for row in range(keys.rowCount(index))]
    assert members == ["layers.0", "layers.1"]


@pytest.mark.parametrize(("tensors", "mode"), [(FAMILIES_FROM - 1, "tree"), (FAMILIES_FROM, "families")])
def test_families_are_the_default_for_many_tensors(qtbot: QtBot, qapp: QApplication, tensors: int, mode: Mode) -> None:
    refs = [
        TensorRef(f"h.{number % 1000}.w{number // 1000}", "bf16", (2,), (), "w.pt", "x") for number in range(tensors)
    ]
    panel = make_window(qtbot, qapp, source(refs)).tree_panel
    assert panel.mode == mode
    panel.set_filter("h.1")
    assert panel.mode == "flat", "what passes a filter is a list at first"
    panel.clear_filter()
    assert panel.mode == mode


def test_a_mode_is_kept_with_a_filter_and_without(panel: TreePanel) -> None:
    panel.set_mode("families")
    panel.set_filter("wq")
    assert panel.mode == "flat"
    panel.set_mode("tree")
    assert texts(panel)[-2:] == ["0.attention.wq.weight", "1.attention.wq.weight"]
    panel.set_filter("w1")
    assert panel.mode == "tree"
    assert all("w1" in text or "layers" in text or "_orig_mod" in text for text in texts(panel))
    panel.clear_filter()
    assert panel.mode == "families"


def test_a_filter_leaves_families_of_what_passes(panel: TreePanel) -> None:
    panel.set_filter("attention.w state:transform")
    panel.set_mode("families")
    lines = dict(zip(texts(panel), texts(panel, Column.COUNT), strict=True))
    assert lines["_orig_mod.layers.{0-1}.attention"] == "3"
    assert lines["wk.weight"] == "1 of 2"
    assert panel.bar.counter.text() == f"3 of {len(panel.selection.index.rows)}"


def test_the_selection_is_kept_over_modes_filters_and_reloads(window: MainWindow, panel: TreePanel) -> None:
    assert panel.select_key(WQ.format(1))
    select_too(panel, WQ.format(0))
    both = [WQ.format(0), WQ.format(1)]
    for mode in (*MODES, "tree"):
        panel.set_mode(mode)
        assert chosen(panel) == both, mode
        assert panel.view.current_number() == panel.selection.index.find(WQ.format(1))
    panel.set_filter("layers.1")
    assert chosen(panel) == both[1:]
    panel.clear_filter()
    assert chosen(panel) == both, "what a filter hid is selected again"
    window.session.opening.emit(window.session.path)
    window.session.publish(snapshot_of(source()))
    assert chosen(panel) == both
    assert window.status_bar.selection.text().startswith("2 selected")


def test_what_is_unfolded_is_kept_over_modes_filters_and_reloads(
    window: MainWindow, panel: TreePanel, qtbot: QtBot
) -> None:
    panel.set_mode("families")
    family = next(node for node in panel.view.tree.lines() if node.name == "wq.weight")
    panel.view.tree.unfold_one(panel.view.tree.keys.index_of(family))
    families = panel.view.tree.unfolded()
    panel.set_mode("tree")
    panel.view.tree.collapseAll()
    panel.view.tree.expand(panel.view.tree.keys.index(0, 0))
    tree = panel.view.tree.unfolded()
    assert len(tree) == 1
    panel.set_filter("wq")
    panel.clear_filter()
    panel.set_mode("families")
    qtbot.waitUntil(lambda: panel.view.tree.unfolded() == families)
    window.session.opening.emit(window.session.path)
    window.session.publish(snapshot_of(source()))
    qtbot.waitUntil(lambda: panel.view.tree.unfolded() == families)
    panel.set_mode("tree")
    qtbot.waitUntil(lambda: panel.view.tree.unfolded() == tree)


def test_what_is_unfolded_is_kept_over_a_preview(window: MainWindow, panel: TreePanel, qtbot: QtBot) -> None:
    panel.set_mode("tree")
    before = panel.view.tree.unfolded()
    assert len(before) > 4
    window.actions_by_id["preview"].trigger()
    qtbot.waitUntil(lambda: window.session.snapshot is not None and window.session.snapshot.preview is not None)
    panel.view.tree.expandAll()
    after = panel.view.tree.unfolded()
    assert after != before, "the names are others"
    window.actions_by_id["preview"].trigger()
    qtbot.waitUntil(lambda: panel.view.tree.unfolded() == before)
    window.actions_by_id["preview"].trigger()
    qtbot.waitUntil(lambda: panel.view.tree.unfolded() == after)


def test_another_checkpoint_begins_anew(window: MainWindow, panel: TreePanel) -> None:
    panel.select_key(WQ.format(0))
    panel.set_filter("wq")
    window.session.opening.emit("another.pt")
    assert panel.filter_box.text() == ""
    assert panel.model.rowCount() == 0
    window.session.publish(snapshot_of(source()))
    assert chosen(panel) == []


def test_a_group_stays_selected(panel: TreePanel) -> None:
    group = next(node for node in panel.view.tree.lines() if node.name == "layers")
    panel.view.tree.go_to(group)
    panel._session.change_target(layout="meta")
    now = panel.view.current_group()
    assert now is not None
    assert now.name == "layers"


def test_a_group_of_families_is_told_in_figures(window: MainWindow, panel: TreePanel) -> None:
    panel.set_mode("families")
    family = next(node for node in panel.view.tree.lines() if node.name == "wq.weight")
    panel.view.tree.go_to(family)
    assert "layers.{0-1}.attention.wq.weight" in window.inspector_panel.details.overview.title.text().replace(
        "\u200b", ""
    )
    assert window.status_bar.selection.text().startswith("2 selected")


def test_everything_is_unfolded_and_folded_by_keys(window: MainWindow, panel: TreePanel, qtbot: QtBot) -> None:
    panel.view.tree.clearSelection()
    window.actions_by_id["collapse"].trigger()
    assert panel.view.tree.unfolded() == set()
    window.actions_by_id["expand"].trigger()
    qtbot.waitUntil(lambda: not panel.unfolding.running)
    rows = [node for node in panel.view.tree.lines() if node.is_row]
    assert len(rows) == len(panel.selection.index.rows)
    panel.view.tree.go_to(next(node for node in panel.view.tree.lines() if node.name == "layers"))
    window.actions_by_id["collapse"].trigger()
    assert not any(node.is_row and "layers" in texts_of(node) for node in panel.view.tree.lines())


def texts_of(node: Node) -> str:
    return ".".join(each.name for each in node.ancestors())


def test_very_much_is_unfolded_only_when_that_is_wanted(qtbot: QtBot, qapp: QApplication) -> None:
    refs = [TensorRef(f"h.{n}.w", "bf16", (2,), (), "w.pt", "x") for n in range(MOST_UNASKED + 1)]
    window = make_window(qtbot, qapp, source(refs))
    panel = window.tree_panel
    window.actions_by_id["expand"].trigger()
    assert panel.view.tree.unfolded() == set()
    qtbot.keyClick(panel.view.tree, "*")
    assert panel.view.tree.unfolded() == set(), "nor by the key that Qt has for it"
    panel.unfold_selection()
    qtbot.waitUntil(lambda: not panel.unfolding.running)
    assert len(panel.view.tree.unfolded()) == 1


# ------------------------------------------------------------------------------------------------------------ the strip


def test_the_strip_marks_lines_rows_and_folded_groups(panel: TreePanel) -> None:
    panel.set_mode("tree")
    panel.view.tree.collapseAll()
    panel.view.tree.expand(panel.view.tree.keys.index(0, 0))
    panel.strip.look()
    nodes = list(panel.view.tree.lines())
    codes = panel.strip.strip._codes
    assert len(codes) == len(nodes)
    layers = next(place for place, node in enumerate(nodes) if node.name == "layers")
    assert codes[layers] == CODE["missing"], "of what a folded group holds, what wants most attention"
    assert codes[0] == 255, "an unfolded group has no mark of its own"
    panel.strip.strip.chosen.emit(layers)
    assert chosen(panel) == ["_orig_mod.layers.0.attention.wk.weight"], "the first difference in it"
    panel.set_mode("flat")
    panel.strip.look()
    assert len(panel.strip.strip._codes) == len(panel.selection.index.rows)
    panel.strip.strip.chosen.emit(3)
    assert panel.view.currentIndex().row() == 3


def test_one_mark_among_half_a_million_lines_is_drawn_and_gone_to(qapp: QApplication, qtbot: QtBot) -> None:
    strip = OverviewStrip(Theme(qapp, "light"))
    qtbot.addWidget(strip)
    strip.resize(10, 300)
    strip.show_codes(b"\1" * 250_000 + b"\0" + b"\1" * 249_999, ["red", ""])
    assert strip.accessibleName() == "1 of 500000 lines are marked"
    image = strip.grab().toImage()
    assert [y for y in range(300) if image.pixelColor(5, y) != image.pixelColor(5, 0)] == [150, 151]
    found: list[int] = []
    strip.chosen.connect(found.append)
    place = QPointF(5, 150)
    left = Qt.MouseButton.LeftButton
    strip.mouseReleaseEvent(
        QMouseEvent(QMouseEvent.Type.MouseButtonRelease, place, place, left, left, Qt.KeyboardModifier.NoModifier)
    )
    assert found == [250_000]


@pytest.mark.parametrize("mode", MODES)
def test_the_walk_meets_every_difference_in_each_mode(panel: TreePanel, mode: Mode) -> None:
    panel.set_mode(mode)
    different = {row.path for row in panel.selection.index.rows if row.state not in ("same", "tied", "aside")}
    seen = []
    for _ in range(len(different) + 1):
        panel.view.step(forward=True)
        seen += chosen(panel)
    assert set(seen) == different
    assert seen[0] == seen[-1], "and starts over"
    panel.view.step(forward=False)
    assert chosen(panel) == [seen[-2]]


# ---------------------------------------------------------------------------------------------------- taking rows out


def test_a_drag_carries_a_table_and_no_file(panel: TreePanel) -> None:
    panel.set_mode("flat")
    panel.select_key(WQ.format(0))
    select_too(panel, WQ.format(1))
    data = panel.copying.mime_data()
    assert sorted(data.formats()) == ["text/plain", "text/tab-separated-values"]
    assert not data.hasUrls()
    lines = data.text().split("\n")
    assert lines[0].split("\t") == [
        "transform", WQ.format(0), "model.layers.0.self_attn.q_proj.weight", "[8, 8]", "bf16", "128", "w.pt",
    ]  # fmt: skip
    assert len(lines) == 2
    assert bytes(data.data("text/tab-separated-values").data()).decode() == data.text()


@pytest.mark.parametrize("is_free", [True, False])
def test_very_many_rows_are_written_by_a_job_while_they_are_dragged(
    panel: TreePanel, monkeypatch: pytest.MonkeyPatch, is_free: bool
) -> None:
    panel.set_mode("flat")
    panel.view.list.selectAll()
    wanted = panel.copying.mime_data()
    monkeypatch.setattr(tree_copy, "MANY", 2)
    if not is_free:
        monkeypatch.setattr(QThreadPool, "start", lambda *_: None)
    data = panel.copying.mime_data()
    assert sorted(data.formats()) == sorted(wanted.formats())
    assert not data.hasUrls()
    assert data.text() == wanted.text()
    assert data.data("text/tab-separated-values") == wanted.data("text/tab-separated-values")


def test_what_is_cancelled_while_it_is_dragged_is_not_dropped(
    panel: TreePanel, window: MainWindow, monkeypatch: pytest.MonkeyPatch
) -> None:
    panel.set_mode("flat")
    panel.view.list.selectAll()
    monkeypatch.setattr(tree_copy, "MANY", 2)
    monkeypatch.setattr(QThreadPool, "start", lambda *_: None)
    data = panel.copying.mime_data()
    window.jobs.running()[-1].cancel()
    assert data.text() == ""


@pytest.mark.parametrize("mode", MODES)
def test_the_mouse_selects_what_it_is_drawn_over_and_drags_what_is_selected(
    panel: TreePanel, qtbot: QtBot, mode: Mode
) -> None:
    panel.set_mode(mode)
    panel.view.tree.unfold_first(panel.view.tree.keys.tree, members=True)
    view, drags = panel.view.current, list[str]()
    view.drag_wanted.disconnect(panel.copying.drag)
    view.drag_wanted.connect(lambda: drags.append(panel.copying.mime_data().text()))
    rows = [view.visualRect(index.siblingAtColumn(Column.KEY)).center() for index in list(view.in_sight())[:4]]

    def draw(first: int, last: int) -> None:
        qtbot.mousePress(view.viewport(), Qt.MouseButton.LeftButton, pos=rows[first])
        for place in range(first, last + 1):
            qtbot.mouseMove(view.viewport(), rows[place])
        qtbot.mouseRelease(view.viewport(), Qt.MouseButton.LeftButton, pos=rows[last])

    draw(0, 3)
    assert not drags
    assert len(view.selectionModel().selectedRows()) == 4
    draw(1, 3)
    assert len(drags) == 1
    assert len(drags[0].split("\n")) == 4


@pytest.mark.parametrize("mode", MODES)
def test_a_click_shows_the_tensor_in_the_inspector(
    window: MainWindow, panel: TreePanel, qtbot: QtBot, mode: Mode
) -> None:
    panel.set_mode(mode)
    panel.view.tree.unfold_first(panel.view.tree.keys.tree, members=True)
    view = panel.view.current
    for key in ("_orig_mod.layers.0.attention.wq.weight", "_orig_mod.layers.1.attention.wv.weight"):
        number = panel.selection.index.find(key)
        assert number is not None
        index = panel.view._index_of(number)
        view.scrollTo(index)
        pos = view.visualRect(index.siblingAtColumn(Column.KEY)).center()
        with qtbot.waitSignal(panel.selected) as told:
            qtbot.mouseClick(view.viewport(), Qt.MouseButton.LeftButton, pos=pos)
        assert told.args is not None
        assert told.args[0].path == key, "and nothing else in between"
        assert window.inspector_panel.details.names.value("key") == key


@pytest.mark.parametrize("mode", MODES)
def test_letting_go_of_the_only_selected_row_shows_the_whole_file(
    window: MainWindow, panel: TreePanel, qtbot: QtBot, mode: Mode
) -> None:
    panel.set_mode(mode)
    assert panel.select_key("_orig_mod.layers.0.attention.wq.weight")
    view = panel.view.current
    pos = view.visualRect(view.currentIndex().siblingAtColumn(Column.KEY)).center()
    qtbot.mouseClick(view.viewport(), Qt.MouseButton.LeftButton, Qt.KeyboardModifier.ControlModifier, pos)
    assert not window.inspector_panel.details.overview.isHidden()


def test_groups_are_copied_with_their_names(window: MainWindow, panel: TreePanel) -> None:
    panel.set_mode("families")
    panel.view.tree.go_to(next(node for node in panel.view.tree.lines() if node.name == "wk.weight"))
    window.actions_by_id["copy-key"].trigger()
    assert QGuiApplication.clipboard().text() == "_orig_mod.layers.{0-1}.attention.wk.weight"
    window.actions_by_id["copy-rows"].trigger()
    cells = QGuiApplication.clipboard().text().split("\t")
    assert cells[:3] == ["missing:1 transform:1", "_orig_mod.layers.{0-1}.attention.wk.weight",
                         "model.layers.{0-1}.self_attn.k_proj.weight"]  # fmt: skip


def test_a_cell_never_breaks_the_table(qtbot: QtBot, qapp: QApplication) -> None:
    refs = [*llama_refs(), TensorRef("a\tb\nc", "bf16", (2,), (), "w.pt", "x")]
    panel = make_window(qtbot, qapp, source(refs)).tree_panel
    panel.select_key("a\tb\nc")
    panel.copying.copy_rows()
    assert QGuiApplication.clipboard().text().split("\t")[1] == "a\\x09b\\x0ac"


def test_very_many_rows_are_copied_in_a_job(panel: TreePanel, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree_copy, "MANY", 3)
    panel.set_mode("flat")
    panel.view.list.selectAll()
    QGuiApplication.clipboard().clear()
    panel.copying.copy_rows()
    qtbot.waitUntil(lambda: not panel._session.jobs.running())
    assert len(QGuiApplication.clipboard().text().split("\n")) == len(panel.selection.index.rows)


# ------------------------------------------------------------------------------------------------------------ columns


def test_columns_are_chosen_moved_widened_and_remembered(qtbot: QtBot, qapp: QApplication) -> None:
    window = make_window(qtbot, qapp, source())
    window.resize(2200, 900)
    columns, view = window.tree_panel.columns, window.tree_panel.view
    columns.share_room()
    assert not columns.is_shown(Column.SHARD)
    entries = {action.text(): action for action in columns.menu.actions()}
    assert not entries["Key in file"].isEnabled(), "something has to be there"
    entries["Shard"].trigger()
    entries["Type"].trigger()
    head = view.tree.header()
    head.moveSection(head.visualIndex(Column.SHAPE), 0)
    head.resizeSection(Column.SIZE, 150)
    wanted = columns.words()
    assert wanted[:2] == ["shape", "state"]
    assert "-dtype" in wanted
    assert "shard" in wanted
    assert any(word.startswith("size=") for word in wanted)
    window.tree_panel.set_mode("flat")
    assert not columns.is_shown(Column.DTYPE)
    assert not columns.is_shown(Column.COUNT), "a row of a list is one tensor"
    assert view.list.horizontalHeader().visualIndex(Column.SHAPE) == 0
    window.close()
    again = make_window(qtbot, qapp, source()).tree_panel.columns
    assert again.words() == wanted
    again.menu.actions()[-1].trigger()
    assert again.words()[0] == "state"
    assert not again.is_shown(Column.SHARD)


def test_words_of_other_versions_are_taken_as_far_as_they_go(panel: TreePanel) -> None:
    panel.columns.restore(["-key", "nonsense", "size=1e9", "size", "shape=-3", "dtype=9999"])
    words = panel.columns.words()
    given = [word for word in words if word.partition("=")[0] in ("key", "size", "shape", "dtype")]
    assert given == ["key", "size", "shape", "dtype=200.0"]
    assert len(words) == len(Column)


def test_where_there_is_little_room_columns_give_way(window: MainWindow, panel: TreePanel, qtbot: QtBot) -> None:
    window.resize(window.minimumSizeHint())
    panel.view.resize(30 * panel.fontMetrics().height(), 300)
    panel.columns.share_room()
    shown = [column for column in Column if panel.columns.is_shown(column)]
    assert Column.STATE in shown
    assert Column.KEY in shown
    assert Column.SIZE not in shown


# ---------------------------------------------------------------------------------------------------------- the filter


@pytest.mark.parametrize("text", ["dtype:", "state:mis", "size:>", "shape:(8,", "re:(a", 'wq "open', "layer:1-", "!"])
def test_what_is_still_written_is_not_marked_before_it_is_left(panel: TreePanel, qtbot: QtBot, text: str) -> None:
    box = panel.filter_box
    box.setFocus()
    qtbot.waitUntil(box.hasFocus)
    qtbot.keyClicks(box, text)
    panel.apply_filter()
    assert box.error
    assert box.property("wrong") is False
    assert panel.bar.wrong_line.isHidden()
    qtbot.keyClick(box, Qt.Key.Key_Return)
    assert box.property("wrong") is True
    assert box.error in panel.bar.wrong_line.text(), "in words, not by colour alone"
    qtbot.keyClick(box, Qt.Key.Key_Escape)
    assert panel.bar.wrong_line.isHidden()


@pytest.mark.parametrize("text", ["dytpe:bf16", "state:nonsense", "dtype: wq", "size:>big", "re:(a+)+b"])
def test_what_can_not_become_right_is_marked_at_once(panel: TreePanel, qtbot: QtBot, text: str) -> None:
    panel.filter_box.setFocus()
    qtbot.waitUntil(panel.filter_box.hasFocus)
    qtbot.keyClicks(panel.filter_box, text)
    panel.apply_filter()
    assert panel.filter_box.property("wrong") is True
    assert panel.bar.wrong_line.isVisible()
    assert panel.filter_box.error in panel.bar.wrong_line.text()


def test_slash_goes_to_the_filter_and_escape_clears_then_leaves(window: MainWindow, qtbot: QtBot) -> None:
    panel = window.tree_panel
    panel.view.current.setFocus()
    window.actions_by_id["find"].trigger()
    assert panel.filter_box.hasFocus()
    qtbot.keyClicks(panel.filter_box, "wq")
    qtbot.keyClick(panel.filter_box, Qt.Key.Key_Escape)
    assert panel.filter_box.text() == ""
    assert panel.filter_box.hasFocus()
    qtbot.keyClick(panel.filter_box, Qt.Key.Key_Escape)
    assert panel.view.current.hasFocus()


@pytest.mark.parametrize("mode", MODES)
def test_a_filter_over_many_rows_runs_in_a_job_in_each_mode(
    panel: TreePanel, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, mode: Mode
) -> None:
    panel.set_filter("w1")
    panel.set_mode(mode)
    monkeypatch.setattr(tree_filter, "MANY", 3)
    panel.set_filter("wq")
    assert panel.search.running
    qtbot.waitUntil(lambda: not panel._session.jobs.running())
    assert panel.mode == mode
    assert panel.bar.counter.text().startswith("2 of")


@pytest.mark.parametrize("least", [1, 1 << 20])
def test_figures_that_are_known_have_a_column(
    qtbot: QtBot, qapp: QApplication, monkeypatch: pytest.MonkeyPatch, least: int
) -> None:
    monkeypatch.setattr(cache, "LEAST_BYTES", least)
    window = make_window(qtbot, qapp)
    window.open_path(str(resource(SAMPLE)))
    qtbot.waitUntil(lambda: window.session.snapshot is not None)
    snapshot, panel = window.session.snapshot, window.tree_panel
    assert snapshot is not None
    panel.set_filter("norm.weight state:renamed")
    panel.columns.show_column(Column.STD, True)
    row, cell = panel.model.row(panel.model.index(0, 0)), panel.model.index(0, Column.STD)
    assert row is not None
    assert row.ref is not None
    qtbot.waitUntil(lambda: 0 in range(panel.model.rowCount()) and bool(panel.looks.figures))
    wanted = figure_text(tensor_stats(snapshot.source, row.ref, cache=StatsCache()).std)
    if least == 1:
        assert cell.data() == "", "of a tensor that is not small nothing is read"
        window.session.scanned.emit()
    qtbot.waitUntil(lambda: cell.data() == wanted)
    qtbot.waitUntil(lambda: not window.jobs.running())


def test_the_modes_stand_below_where_there_is_little_room(qapp: QApplication, qtbot: QtBot) -> None:
    bar = FilterBar(Theme(qapp, "light"))
    qtbot.addWidget(bar)
    bar.show()

    def is_below() -> bool | None:
        """Return where the modes are; None while they are on their way."""
        button = bar.modes.button(2)
        return button.mapTo(bar, QPoint()).y() > bar.box.geometry().bottom() if button.isVisible() else None

    for ems in (26, 60, 26):
        bar.resize(ems * bar.fontMetrics().height(), 200)
        qtbot.waitUntil(lambda ems=ems: is_below() is (ems == 26))  # type: ignore[misc]
