"""The registry of pages: each is made when it is first seen, and leads back to the tensors."""

from __future__ import annotations

import pytest
from PySide6.QtWidgets import QApplication, QLabel, QTabBar
from pytestqt.qtbot import QtBot

from ckpt_gui.gui import main_window, pages
from ckpt_gui.gui.pages import PAGES, Page
from ckpt_gui.gui.session import Session
from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.window_state import arrange
from tests.gui.checkpoints import source
from tests.gui.windows import make_window

KEY = "_orig_mod.layers.1.attention.wq.weight"


class Counting(QLabel):
    """A page that says what was open when it was made."""

    made = 0

    def __init__(self, session: Session, theme: Theme) -> None:
        super().__init__(session.snapshot.source.path if session.snapshot else "nothing")
        type(self).made += 1
        self.session = session


@pytest.fixture
def window(qtbot: QtBot, qapp: QApplication, monkeypatch: pytest.MonkeyPatch) -> main_window.MainWindow:
    monkeypatch.setattr(pages, "PAGES", (PAGES[0], Page("count", "&Count", "Counts", Counting)))
    monkeypatch.setattr(Counting, "made", 0)
    return make_window(qtbot, qapp, source())


def test_a_page_is_made_when_it_is_first_seen(window: main_window.MainWindow) -> None:
    assert Counting.made == 0
    window.page_tabs.show_page("count")
    window.page_tabs.show_page("tensors")
    window.page_tabs.show_page("count")
    assert Counting.made == 1
    page = window.page_tabs.page("count")
    assert isinstance(page, Counting)
    assert page.isVisible()
    assert page.text() == "tiny.pt"


def test_a_page_leads_to_tensors(window: main_window.MainWindow) -> None:
    window.page_tabs.show_page("count")
    page = window.page_tabs.page("count")
    assert isinstance(page, Counting)
    page.session.show_key(KEY)
    assert window.tree_panel.isVisible()
    assert [row.path for row in window.tree_panel.view.selected_rows()] == [KEY]
    window.page_tabs.show_page("count")
    page.session.show_keys([KEY], "what the page counts")
    assert window.tree_panel.isVisible()
    assert window.tree_panel.model.rowCount() == 1
    assert "what the page counts" in window.tree_panel.bar.only_button.text()


def test_pages_are_named_in_the_menu_and_on_the_command_line(window: main_window.MainWindow) -> None:
    actions = {action.text(): action for action in window.page_tabs.menu_actions()}
    assert list(actions) == ["&Tensors", "&Count"]
    actions["&Count"].trigger()
    assert window.page_tabs.currentIndex() == 1
    arrange(window, None, None, "tensors")
    assert window.page_tabs.currentIndex() == 0
    assert not window.notices.by_name


def test_one_page_has_no_tabs(qtbot: QtBot, qapp: QApplication, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "PAGES", PAGES[:1])
    window = make_window(qtbot, qapp, source())
    assert not window.page_tabs.findChild(QTabBar).isVisible()
    assert window.page_tabs.menu_actions() == []
