"""The last session: kept while the program runs, offered at the next start, opened as it was shown, never by itself."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from ckpt_gui.desktop.resources import SAMPLE, resource
from ckpt_gui.gui.main_window import MainWindow
from ckpt_gui.gui.session_file import WindowState, read_states, session_words, write_states
from ckpt_gui.gui.settings import Settings
from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.window_state import state_of, view_command
from ckpt_gui.gui.windows import Windows

KEY = "_orig_mod.layers.1.attention.wq.weight"


def opened(windows: Windows, qtbot: QtBot, path: str) -> MainWindow:
    window = windows.add()
    with qtbot.waitSignal(window.settled):
        window.open_path(path)
    return window


def test_what_was_open_is_offered_and_opened_as_it_was(qtbot: QtBot, qapp: QApplication) -> None:
    sample = str(resource(SAMPLE))
    first = Windows(Settings(), Theme(qapp, "light"))
    assert first.before == ()
    window = opened(first, qtbot, sample)
    window.tree_panel.set_filter("dtype:bf16")
    qtbot.waitUntil(lambda: window.tree_panel.model.flat)
    assert window.tree_panel.select_key(KEY)
    window.page_tabs.show_page("values")
    opened(first, qtbot, sample)
    first.close_all()

    second = Windows(Settings(), Theme(qapp, "light"))
    assert [os.path.basename(state.path) for state in second.before] == ["tiny-llama-compiled.pt"] * 2
    window = second.add()
    assert window.session.path is None, "nothing is opened by itself"
    page = window.start_page
    assert not page.session_card.isHidden()
    assert page.session_text.toolTip().startswith("2 checkpoints: tiny-llama-compiled.pt")
    assert window.actions_by_id["restore-session"].isEnabled()
    with qtbot.waitSignal(window.settled):
        page.session_button.click()
    assert len(second.open) == 2
    shown = next(it for it in second.open if it is window)
    qtbot.waitUntil(lambda: all(it.session.snapshot is not None for it in second.open))
    qtbot.waitUntil(lambda: bool(shown.tree_panel.view.selected_rows()))
    assert state_of(shown) == WindowState(sample, "values", "", "dtype:bf16", KEY, "", "")
    assert not shown.actions_by_id["restore-session"].isEnabled(), "it is offered once"
    second.close_all()


def test_it_is_not_offered_where_that_is_not_wanted(qtbot: QtBot, qapp: QApplication) -> None:
    settings = Settings()
    settings.save_session(write_states([WindowState("/m/a.pt")]))
    settings.offers_session = False
    windows = Windows(settings, Theme(qapp, "light"))
    window = windows.add()
    assert window.start_page.session_card.isHidden()
    assert not window.actions_by_id["restore-session"].isEnabled()
    windows.close_all()
    settings.offers_session = True
    settings.clear()
    assert Windows(settings, Theme(qapp, "light")).before == (), "--fresh forgets it"


def test_a_start_page_that_is_closed_forgets_nothing(qtbot: QtBot, qapp: QApplication) -> None:
    settings = Settings()
    settings.save_session(write_states([WindowState("/m/a.pt")]))
    windows = Windows(settings, Theme(qapp, "light"))
    windows.add()
    windows.close_all()
    assert read_states(settings.session()) == (WindowState("/m/a.pt"),)


def test_a_file_that_is_gone_is_told_in_its_window(qtbot: QtBot, qapp: QApplication, tmp_path: Path) -> None:
    settings = Settings()
    settings.save_session(write_states([WindowState(str(tmp_path / "gone.pt"), mode="list")]))
    windows = Windows(settings, Theme(qapp, "light"))
    window = windows.add()
    with qtbot.waitSignal(window.settled):
        window.start_page.session_button.click()
    assert window.pages.currentWidget() is window.error_panel
    windows.close_all()


@pytest.mark.parametrize(
    "text",
    ["", "nonsense", "[]", "{}", '{"version": 9, "windows": [{"path": "/a"}]}', '{"version": 1, "windows": [3, {}]}'],
)
def test_what_is_not_ours_is_no_session(text: str) -> None:
    assert read_states(text) == ()


def test_a_view_as_a_command() -> None:
    state = WindowState("/m/a b.pt", "plots", "list", "shape:(_,4096)", "w", "Llama-3.2-1B")
    words = "ckpt-gui '/m/a b.pt' --against Llama-3.2-1B --filter 'shape:(_,4096)' --select w --view plots"
    assert view_command(state) == words
    assert view_command(WindowState("/m/a.pt", "tensors", "list")) == "ckpt-gui /m/a.pt --view list"
    assert session_words([WindowState(f"/m/{n}.pt") for n in range(6)]) == "6 checkpoints: 0.pt, 1.pt, 2.pt, 3.pt, …"
