"""The settings and the shortcuts: each is shown, takes effect at once, is remembered, and can be reset."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QKeySequence
from PySide6.QtWidgets import QApplication, QDialog, QProgressBar, QTabBar, QWidget
from pytestqt.qtbot import QtBot

from ckpt_gui.gui.main_window import MainWindow
from ckpt_gui.gui.panels.settings_dialog import SettingsDialog
from ckpt_gui.gui.panels.shortcuts_dialog import ShortcutsDialog
from ckpt_gui.gui.settings import Settings
from ckpt_gui.gui.theme import STILL, Theme
from ckpt_gui.gui.widgets.progress import ProgressBar
from tests.gui.checkpoints import source
from tests.gui.windows import make_window, settle, snapshot_of, window_on


@pytest.fixture
def window(qtbot: QtBot, qapp: QApplication) -> Iterator[MainWindow]:
    made = make_window(qtbot, qapp)
    yield made
    made.theme.set_points(0)
    made.theme.set_still(False)


def settings_of(window: MainWindow) -> SettingsDialog:
    window.actions_by_id["settings"].trigger()
    dialog = window.findChild(SettingsDialog)
    assert dialog is not None
    return dialog


def shortcuts_of(window: MainWindow) -> ShortcutsDialog:
    window.actions_by_id["shortcuts"].trigger()
    dialog = window.findChild(ShortcutsDialog)
    assert dialog is not None
    return dialog


# -------------------------------------------------------------------------------------------------------------- looks


def test_colours_are_chosen_and_the_menu_follows(window: MainWindow, qtbot: QtBot) -> None:
    dialog = settings_of(window)
    box = dialog.scheme_box
    box.setCurrentIndex(box.findData("contrast"))
    box.activated.emit(box.currentIndex())
    assert window.theme.shown == "contrast"
    assert window.settings.scheme == "contrast"
    assert window.actions_by_id["theme-contrast"].isChecked()
    dialog.close()


def test_letters_grow_with_everything_that_has_a_size_of_its_own(window: MainWindow, qapp: QApplication) -> None:
    heading = window.error_panel.title
    before, usual = heading.font().pointSizeF(), qapp.font().pointSizeF()
    dialog = settings_of(window)
    assert dialog.points_box.text() == "As the system"
    dialog.points_box.setValue(18)
    assert qapp.font().pointSize() == 18
    assert heading.font().pointSizeF() == pytest.approx(before * 18 / usual)
    assert window.settings.points == 18
    inherit = [it for it in window.findChildren(QWidget) if not it.testAttribute(Qt.WidgetAttribute.WA_SetFont)]
    assert {it.font().pointSize() for it in inherit if it.isVisible()} == {18}, "what is open follows at once"
    window.theme.set_scheme("dark")
    assert heading.font().pointSizeF() == pytest.approx(before * 18 / usual), "other colours leave the letters alone"
    dialog.points_box.setValue(dialog.points_box.minimum())
    assert qapp.font().pointSizeF() == usual
    assert heading.font().pointSizeF() == pytest.approx(before)
    assert window.settings.points == 0
    dialog.close()


def test_the_next_start_has_the_letters_that_were_chosen(qapp: QApplication) -> None:
    settings = Settings()
    settings.points = 15
    theme = Theme(qapp, "light", settings.points)
    assert qapp.font().pointSize() == 15
    theme.set_points(0)
    assert theme.points == 0


def test_nothing_moves_by_itself_when_that_is_chosen(window: MainWindow, qtbot: QtBot, qapp: QApplication) -> None:
    dialog = settings_of(window)
    dialog.still_box.click()
    assert window.settings.still
    assert not window.isAnimated()
    assert qapp.styleHints().cursorFlashTime() == 0
    assert not any(qapp.isEffectEnabled(effect) for effect in (Qt.UIEffect.UI_AnimateMenu, Qt.UIEffect.UI_FadeMenu))
    assert "widget-animation-duration: 0" in qapp.styleSheet()
    bar, usual = _Counting(), _Animated()
    for each in (bar, usual):
        qtbot.addWidget(each)
        each.setRange(0, 0)
        each.show()
    qtbot.waitUntil(lambda: bar.painted > 0 and usual.painted > 5)
    assert bar.painted <= 2
    dialog.still_box.click()
    assert window.isAnimated()
    assert not qapp.property(STILL)
    dialog.close()


class _Counting(ProgressBar):
    painted = 0

    def paintEvent(self, event: object) -> None:
        self.painted += 1
        super().paintEvent(event)  # type: ignore[arg-type]


class _Animated(QProgressBar):
    """What Qt paints again and again."""

    painted = 0

    def paintEvent(self, event: object) -> None:
        self.painted += 1
        super().paintEvent(event)  # type: ignore[arg-type]


# --------------------------------------------------------------------------------------------------------------- work


def test_long_work_takes_every_core_when_that_is_chosen(window: MainWindow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ckpt_gui.gui.jobs.every_core", lambda: 64)
    assert window.jobs.workers == 2
    dialog = settings_of(window)
    dialog.cores_box.click()
    assert window.settings.all_cores
    seen: list[int] = []
    job = window.jobs.start("Look", lambda job: job.workers, seen.append, seen.append, quiet=True)
    assert (window.jobs.workers, job.workers) == (64, 64)
    dialog.cores_box.click()
    assert (window.jobs.workers, job.workers) == (2, 64), "what runs goes on as it began"
    dialog.cores_box.click()
    dialog.reset_button.click()
    assert (window.jobs.workers, window.settings.all_cores, dialog.cores_box.isChecked()) == (2, False, False)
    dialog.close()


def test_exports_go_to_the_layout_that_was_chosen(window: MainWindow, qtbot: QtBot, qapp: QApplication) -> None:
    dialog = settings_of(window)
    box = dialog.layout_box
    box.setCurrentIndex(box.findData("torchtune"))
    box.activated.emit(box.currentIndex())
    dialog.close()
    with qtbot.waitSignal(window.settled):
        window.commands.open_sample()
    assert window.session.decisions.target.layout == "torchtune"
    other = window_on(qtbot, qapp, window.last_path, "tensors")
    assert other.session.decisions.target.layout == "torchtune", "windows opened later, too"


def test_closing_asks_only_if_it_shall(window: MainWindow) -> None:
    window.settings.asks_to_close = False
    window.ask_to_close = lambda _window, titles: pytest.fail(f"asked about {titles}")
    window.jobs.start("Writing", lambda job: job.cancelled(), lambda _: None, lambda _: None)
    assert window.close()


def test_less_is_remembered_when_that_is_chosen(window: MainWindow) -> None:
    for number in range(5):
        window.settings.add_recent(f"/m/{number}")
        window.settings.add_filter(f"dtype:{number}")
    dialog = settings_of(window)
    dialog.recents_box.setValue(2)
    dialog.filters_box.setValue(0)
    assert window.settings.recents() == ["/m/4", "/m/3"]
    assert window.settings.filters() == []
    window.settings.add_recent("/m/9")
    window.settings.add_filter("again")
    assert window.settings.recents() == ["/m/9", "/m/4"]
    assert window.settings.filters() == []
    dialog.close()


def test_all_can_be_as_delivered_again(window: MainWindow) -> None:
    window.settings.set_shortcuts({"export": ["Ctrl+K"]})
    window.commands.take_shortcuts()
    dialog = settings_of(window)
    dialog.points_box.setValue(16)
    dialog.reuse_box.click()
    assert dialog._settings.reuses_window
    dialog.ask_box.click()
    dialog.reset_button.click()
    assert dialog.points_box.text() == "As the system"
    assert dialog.ask_box.isChecked()
    assert window.theme.points == 0
    assert window.theme.scheme == "system"
    assert window.actions_by_id["export"].shortcut().toString() == "Ctrl+E"
    dialog.close()


# ---------------------------------------------------------------------------------------------------------- shortcuts


def select(dialog: ShortcutsDialog, name: str) -> None:
    item = next(item for item, each in dialog._items if each.action.objectName() == name)
    dialog.list.setCurrentItem(item)


def press(dialog: ShortcutsDialog, keys: str) -> None:
    dialog.edit.setKeySequence(QKeySequence(keys))
    dialog.edit.editingFinished.emit()


def test_the_list_is_searched_by_name_and_by_key(window: MainWindow) -> None:
    dialog = shortcuts_of(window)
    dialog.search.setText("ctrl+e")
    shown = [each.entry.text for item, each in dialog._items if not item.isHidden()]
    assert shown == ["Export…"]
    dialog.search.setText("legend")
    assert [item.text(2) for item, _ in dialog._items if not item.isHidden()] == ["Shift+F1"]
    dialog.close()


def test_a_shortcut_is_changed_kept_and_given_back(window: MainWindow, qtbot: QtBot, qapp: QApplication) -> None:
    dialog = shortcuts_of(window)
    select(dialog, "export")
    press(dialog, "Ctrl+K")
    action = window.actions_by_id["export"]
    assert action.shortcut().toString() == "Ctrl+K"
    assert action.toolTip().endswith("(Ctrl+K)")
    assert window.settings.shortcuts() == {"export": ["Ctrl+K"]}
    again = make_window(qtbot, qapp)
    assert again.actions_by_id["export"].shortcut().toString() == "Ctrl+K"
    dialog.usual_button.click()
    assert action.shortcut().toString() == "Ctrl+E"
    assert window.settings.shortcuts() == {}
    dialog.none_button.click()
    assert action.shortcuts() == []
    assert window.settings.shortcuts() == {"export": []}
    dialog.close()


def test_keys_are_not_given_twice(window: MainWindow) -> None:
    dialog = shortcuts_of(window)
    select(dialog, "export")
    press(dialog, "F5")
    assert dialog.told.text() == "F5 calls “Read again” already."
    assert window.actions_by_id["export"].shortcut().toString() == "Ctrl+E"
    press(dialog, "Ctrl+Z")
    assert "“Undo”" in dialog.told.text(), "those of Qt count, too"
    select(dialog, "reload")
    press(dialog, "Ctrl+Shift+R")
    select(dialog, "export")
    press(dialog, "F5")
    assert window.actions_by_id["export"].shortcut().toString() == "F5"
    select(dialog, "reload")
    dialog.usual_button.click()
    assert "change that first" in dialog.told.text()
    dialog.close()


def test_new_shortcuts_act(qtbot: QtBot, qapp: QApplication) -> None:
    window = make_window(qtbot, qapp, source())
    view = window.tree_panel.view.tree
    window.actions_by_id["collapse"].trigger()
    assert view.unfolded() == set()
    window.actions_by_id["expand"].trigger()
    assert len(view.unfolded()) >= 3
    window.actions_by_id["copy-view"].trigger()
    assert qapp.clipboard().text().startswith("ckpt-gui ")
    window.actions_by_id["check-values"].trigger()
    assert window.page_tabs.current_name == "scan"
    qtbot.waitUntil(lambda: not window.jobs.running())


def test_docks_make_room_where_the_letters_are_large(window: MainWindow, qtbot: QtBot, qapp: QApplication) -> None:
    window.theme.set_points(20)
    large = make_window(qtbot, qapp)
    large.theme.set_points(20)
    large.session.publish(snapshot_of(source()))
    settle(qtbot, large)
    assert large.docks["inspector"] in large.tabifiedDockWidgets(large.docks["checkpoint"])
    bars = [it for it in large.findChildren(QTabBar) if it.accessibleName() == "Docks"]
    qtbot.waitUntil(lambda: any(bar.count() and bar.isVisible() for bar in bars))
    tabs = next(bar for bar in bars if bar.count() and bar.isVisible())
    assert [tabs.tabText(place) for place in range(tabs.count())] == ["Checkpoint", "Inspector", "Fix plan"]
    assert (tabs.currentIndex(), large.docks["plan"].isHidden()) == (0, False), "a click away"
    assert large.width() <= 1280
    assert large.height() <= 800
    large.actions_by_id["plan-all"].trigger()
    qtbot.waitUntil(lambda: tabs.currentIndex() == 2)
    assert not large.docks["plan"].visibleRegion().isEmpty(), "and a key"
    large.theme.set_points(0)


@pytest.mark.parametrize("what", ["settings", "shortcuts", "palette", "help", "legend", "about", "export", "explain"])
def test_dialogs_fit_the_screen_with_large_letters(
    window: MainWindow, qtbot: QtBot, qapp: QApplication, what: str
) -> None:
    window.theme.set_points(20)
    window.session.publish(snapshot_of(source()))
    window.actions_by_id[what].trigger()
    dialog = next(it for it in window.findChildren(QDialog) if it.isVisible())
    qtbot.waitUntil(lambda: not window.jobs.running())
    least = dialog.minimumSizeHint()
    assert max(dialog.width(), least.width()) <= 1280
    assert max(dialog.height(), least.height()) <= 800
    dialog.close()
