"""The command palette: every action is in it, letters find, what can not be used says why, keys are a jump away."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QApplication, QDialog, QMenu
from pytestqt.qtbot import QtBot

from ckpt_gui.gui.actions import ACTIONS
from ckpt_gui.gui.main_window import MainWindow
from ckpt_gui.gui.models.palette import WANTED, Entry, KeyLookUp, ranked
from ckpt_gui.gui.panels.palette import Palette, window_actions
from tests.gui.checkpoints import source
from tests.gui.windows import make_window


@pytest.fixture
def full(qtbot: QtBot, qapp: QApplication) -> MainWindow:
    return make_window(qtbot, qapp, source())


def palette_of(window: MainWindow) -> Palette:
    window.actions_by_id["palette"].trigger()
    palette = window.findChild(Palette)
    assert palette is not None
    return palette


def texts(palette: Palette, column: int = 0) -> list[str]:
    items = (palette.list.topLevelItem(row) for row in range(palette.list.topLevelItemCount()))
    return [item.text(column) for item in items if item is not None]


def test_every_action_is_in_the_palette(full: MainWindow) -> None:
    for name in full.page_tabs.names:  # pages bring actions of their own
        full.page_tabs.show_page(name)
    full.recents.fill()
    in_dialogs = {action for dialog in full.findChildren(QDialog) for action in dialog.findChildren(QAction)}
    wanted = {
        action.text().replace("&", "")
        for action in full.findChildren(QAction)
        if action not in in_dialogs
        and action.text()
        and not action.isSeparator()
        and not isinstance(action.menu(), QMenu)
        and not action.objectName().startswith("_q_")
    }
    listed = {each.entry.text for each in window_actions(full)}
    assert wanted == listed
    assert {spec.text.replace("&", "") for spec in ACTIONS} <= listed
    assert {"Undo", "Redo", "Tensors", "Fix plan", "Nothing yet"} <= listed


def test_what_fits_the_state_comes_first(full: MainWindow, qtbot: QtBot, qapp: QApplication) -> None:
    assert set(WANTED) <= {spec.id for spec in ACTIONS}
    assert texts(palette_of(full))[:3] == ["Fix and export at once…", "Fix…", "Export…"]
    empty = make_window(qtbot, qapp)
    assert texts(palette_of(empty))[:2] == ["Open file…", "Open folder…"]
    empty.settings.add_command("legend")
    empty.findChild(Palette).close()  # type: ignore[union-attr]
    qtbot.waitUntil(lambda: empty.findChild(Palette) is None)
    assert texts(palette_of(empty))[0] == "Legend of glyphs", "what was used last comes before"


def test_letters_find_a_command_and_return_does_it(full: MainWindow, qtbot: QtBot) -> None:
    palette = palette_of(full)
    qtbot.keyClicks(palette.box, "alist")
    assert texts(palette)[0] == "As a flat list"
    assert texts(palette, 1)[0] == "View"
    assert texts(palette, 2)[0] == "Ctrl+2"
    qtbot.keyClick(palette.box, Qt.Key.Key_Return)
    assert full.tree_panel.model.flat
    assert full.settings.commands() == ["list"]


def test_what_was_used_last_comes_first(full: MainWindow, qtbot: QtBot) -> None:
    full.settings.add_command("legend")
    full.settings.add_command("theme-dark")
    palette = palette_of(full)
    assert texts(palette)[:2] == ["Dark", "Legend of glyphs"]
    palette.close()


def test_down_moves_in_the_list_while_typing(full: MainWindow, qtbot: QtBot) -> None:
    palette = palette_of(full)
    qtbot.keyClick(palette.box, Qt.Key.Key_Down)
    item = palette.list.currentItem()
    assert palette.list.indexOfTopLevelItem(item) == 1
    qtbot.keyClick(palette.box, Qt.Key.Key_Escape)
    assert not palette.isVisible()


def test_what_can_not_be_used_says_why_and_stays(qtbot: QtBot, qapp: QApplication) -> None:
    palette = palette_of(make_window(qtbot, qapp))
    qtbot.keyClicks(palette.box, ">export")
    item = palette.list.currentItem()
    assert (item.text(0), item.text(1)) == ("Export…", "Open a checkpoint first")
    assert "not now: Open a checkpoint first" in item.data(0, Qt.ItemDataRole.AccessibleTextRole)
    qtbot.keyClick(palette.box, Qt.Key.Key_Return)
    assert palette.isVisible()
    assert palette.told.text() == "Open a checkpoint first"
    palette.close()


def test_every_action_that_needs_something_says_what(qtbot: QtBot, qapp: QApplication) -> None:
    for each in window_actions(make_window(qtbot, qapp)):
        if not each.action.isEnabled() and each.action.objectName() in {spec.id for spec in ACTIONS}:
            assert each.entry.why != "Not possible now", each.entry.text


def test_an_at_sign_leads_to_a_key(full: MainWindow, qtbot: QtBot) -> None:
    palette = palette_of(full)
    qtbot.keyClicks(palette.box, "@.1. wq")
    assert len(texts(palette)) == 1
    key = texts(palette)[0]
    assert "layers.1.attention.wq" in key
    qtbot.keyClick(palette.box, Qt.Key.Key_Return)
    (row,) = full.tree_panel.view.selected_rows()
    assert row.path == key


def test_keys_stand_below_the_commands(full: MainWindow, qtbot: QtBot) -> None:
    palette = palette_of(full)
    qtbot.keyClicks(palette.box, "norm")
    assert any("norm.weight" in text for text in texts(palette))
    qtbot.keyClicks(palette.box, "zzz")
    assert texts(palette) == []
    assert palette.told.text() == "Nothing fits."
    palette.close()


def test_what_fits_best() -> None:
    entries = [Entry("a", "Profile info"), Entry("b", "Open file…", "File"), Entry("c", "Close", "File")]
    assert [entry.id for entry in ranked("ofi", entries, ())] == ["b", "a"]
    assert [entry.id for entry in ranked("", entries, ("c",))] == ["c", "a", "b"]
    assert [entry.id for entry in ranked("file", entries, ())] == ["b", "a", "c"], "the menu's name counts last"


def test_keys_are_found_by_all_words_in_any_order() -> None:
    keys = KeyLookUp(["model.layers.0.q.weight", "model.layers.1.Q.weight", "lm_head\nweight"])
    assert keys.find("q layers") == ["model.layers.0.q.weight", "model.layers.1.Q.weight"]
    assert keys.find("head weight") == ["lm_head\nweight"]
    assert keys.find("nothing") == []
    assert keys.find("", 2) == ["model.layers.0.q.weight", "model.layers.1.Q.weight"]
