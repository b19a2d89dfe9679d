"""A walk over every page, dock and dialog: names, roles and rows for readers, keys for everything, no two alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from PySide6.QtCore import QModelIndex, Qt
from PySide6.QtGui import QAccessible, QAction, QKeySequence, QShortcut
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QAbstractScrollArea,
    QAbstractSpinBox,
    QApplication,
    QComboBox,
    QDialog,
    QHeaderView,
    QLabel,
    QLineEdit,
    QMenu,
    QPlainTextEdit,
    QTabBar,
    QTextEdit,
    QWidget,
)
from pytestqt.qtbot import QtBot

from ckpt_gui.desktop.resources import SAMPLE, resource
from ckpt_gui.gui.main_window import MainWindow
from ckpt_gui.gui.pages import PAGES
from tests.gui.windows import make_window

CONTROLS = (
    QAbstractButton, QLineEdit, QComboBox, QAbstractSpinBox, QAbstractItemView, QPlainTextEdit, QTextEdit, QTabBar,
)  # fmt: skip
DIALOGS = ("palette", "settings", "shortcuts", "help", "legend", "explain", "about", "export")
ROWS = 40
NO_ROLE = (QAccessible.Role.NoRole, QAccessible.Role.Client, QAccessible.Role.Pane)


@pytest.fixture
def full(qtbot: QtBot, qapp: QApplication) -> MainWindow:
    """Return a window on the sample, with every page made."""
    window = make_window(qtbot, qapp)
    with qtbot.waitSignal(window.settled):
        window.open_path(str(resource(SAMPLE)))
    return window


def shown(window: MainWindow, qtbot: QtBot, what: str) -> QWidget:
    """Show a page, the start page, or a dialog, and return what there is to walk over."""
    if what == "start":
        window.settings.add_recent("/gone/model.pt")
        window.commands.close_checkpoint()
        return window
    if what in DIALOGS:
        before = set(window.findChildren(QDialog))
        window.actions_by_id[what].trigger()
        (dialog,) = set(window.findChildren(QDialog)) - before
        qtbot.waitUntil(lambda: not window.jobs.running())
        return dialog
    window.page_tabs.show_page(what)
    window.tree_panel.select_key("_orig_mod.layers.0.attention.wq.weight")
    window.page_tabs.show_page(what)
    qtbot.waitUntil(lambda: not window.jobs.running())
    return window


def controls(top: QWidget) -> Iterator[QWidget]:
    """Yield what can be operated and is seen; not the parts of which Qt makes a control."""
    for widget in top.findChildren(QWidget):
        if not isinstance(widget, CONTROLS) or not widget.isVisible() or widget.window() is not top:
            continue
        parent = widget.parent()
        if isinstance(parent, QComboBox | QAbstractSpinBox) or widget.objectName().startswith("qt_"):
            continue
        if isinstance(widget, QHeaderView) or (isinstance(widget, QTabBar) and not widget.count()):
            continue
        yield widget


def name(widget: QWidget) -> str:
    """Return what a widget is called in a report of this test."""
    around = type(widget.parent()).__name__
    return f"{type(widget).__name__} {widget.accessibleName() or getattr(widget, 'text', str)()!r} in {around}"


WHAT = [*(page.name for page in PAGES), "start", *DIALOGS]


@pytest.mark.parametrize("what", WHAT)
def test_everything_is_there_for_readers_and_for_the_keyboard(full: MainWindow, qtbot: QtBot, what: str) -> None:
    top = shown(full, qtbot, what)
    check_names_and_roles(top)
    check_rows(top)
    check_letters(top)
    check_tab(top)


def check_names_and_roles(top: QWidget) -> None:
    """Fail where a control has no name or no role."""
    bad = []
    for widget in controls(top):
        told = QAccessible.queryAccessibleInterface(widget)
        assert told is not None, name(widget)
        if not told.text(QAccessible.Text.Name).strip() or told.role() in NO_ROLE:
            bad.append(f"{name(widget)}: {told.role()}")
        if isinstance(widget, QAbstractButton) and not widget.text().strip(" ✕⧉▾▸▴+-…") and not widget.toolTip():
            bad.append(f"{name(widget)}: a sign alone, without a tool tip")
    assert bad == []


def check_rows(top: QWidget) -> None:
    """Fail where a row of a list has nothing to be read aloud."""
    bad = []
    for view in controls(top):
        if not isinstance(view, QAbstractItemView) or view.model() is None:
            continue
        for index in cells(view):
            role = Qt.ItemDataRole
            said = [index.data(role.AccessibleTextRole), index.data(role.DisplayRole), index.data(role.CheckStateRole)]
            if index.column() == 0 and not any(each not in (None, "") for each in said):
                bad.append(f"{name(view)}: row {index.row()}")
    assert bad == []


def cells(view: QAbstractItemView, parent: QModelIndex | None = None) -> Iterator[QModelIndex]:
    """Yield the first cell of the first rows."""
    model, above = view.model(), parent or QModelIndex()
    for row in range(min(ROWS, model.rowCount(above))):
        index = model.index(row, 0, above)
        yield index
        yield from cells(view, index)


def check_tab(top: QWidget) -> None:
    """Fail where Tab or Shift+Tab does not reach everything, or is trapped."""
    wanted = {
        it for it in controls(top) if it.isEnabled() and it.focusPolicy() != Qt.FocusPolicy.NoFocus and focusable(it)
    }
    for key in (Qt.Key.Key_Tab, Qt.Key.Key_Backtab):
        seen: list[QWidget] = []
        for _ in range(400):
            place = top.focusWidget() or top
            QApplication.sendEvent(place, *_press(key))
            now = top.focusWidget()
            assert now is not None
            if now in seen[:1] and len(seen) > 1:
                break
            seen.append(now)
        reached = {it for now in seen for it in (now, now.focusProxy()) if it is not None}
        missed = [name(it) for it in wanted - reached]
        assert not missed, (key, missed, name(seen[-1]))


def focusable(widget: QWidget) -> bool:
    """Return True for what Tab shall reach; of a group of which one is chosen that one, the arrow keys the others."""
    if isinstance(widget, QAbstractButton) and not widget.isChecked():
        group = widget.group()
        if widget.autoExclusive() or (group is not None and group.exclusive() and group.checkedButton() is not None):
            return False
    return bool(widget.focusPolicy() & Qt.FocusPolicy.TabFocus)


def _press(key: Qt.Key) -> tuple[object]:
    from PySide6.QtCore import QEvent
    from PySide6.QtGui import QKeyEvent

    held = Qt.KeyboardModifier.ShiftModifier if key == Qt.Key.Key_Backtab else Qt.KeyboardModifier.NoModifier
    return (QKeyEvent(QEvent.Type.KeyPress, key, held),)


def test_what_the_mouse_can_press_the_keyboard_can_reach(full: MainWindow, qtbot: QtBot) -> None:
    for what in WHAT[: len(PAGES)]:
        top = shown(full, qtbot, what)
        bad = [name(it) for it in controls(top) if not it.focusPolicy() & Qt.FocusPolicy.TabFocus and not excused(it)]
        assert bad == [], what


def excused(widget: QWidget) -> bool:
    """Return True for what has another way by keyboard, or can not be pressed at all.

    The button that clears a line has Escape, those that scroll tabs the arrow keys; a bar that leads nowhere only
    shows a figure.
    """
    return isinstance(widget.parent(), QLineEdit | QTabBar) or (
        type(widget).__name__ == "_Row" and not widget.accessibleDescription()
    )


def test_no_two_shortcuts_are_alike(full: MainWindow, qtbot: QtBot) -> None:
    for page in PAGES:
        shown(full, qtbot, page.name)
    taken: dict[str, list[str]] = {}
    for action in full.findChildren(QAction):
        for key in action.shortcuts():
            taken.setdefault(key.toString(), []).append(action.text())
    for shortcut in full.findChildren(QShortcut):
        taken.setdefault(shortcut.key().toString(), []).append(name_of(shortcut))
    assert {keys: texts for keys, texts in taken.items() if keys and len(texts) > 1} == {}


def name_of(shortcut: QShortcut) -> str:
    return f"a QShortcut of {type(shortcut.parent()).__name__}"


def test_every_shortcut_of_the_window_is_there(full: MainWindow) -> None:
    keys = {key.toString() for action in full.findChildren(QAction) for key in action.shortcuts()}
    wanted = [
        "Ctrl+O", "Ctrl+Shift+O", "Ctrl+Q", "Ctrl+F", "/", "Alt+Down", "Alt+Up", "F8", "Shift+F8", "Ctrl+1", "Ctrl+2",
        "Ctrl++", "Ctrl+-", "F5", "Shift+F5", "F6", "F7", "F9", "Ctrl+E", "Ctrl+Shift+E", "Ctrl+C", "Ctrl+Shift+C",
        "Ctrl+Alt+C", "Ctrl+Shift+P", "F1", "Shift+F1", "Ctrl+Z",
    ]  # fmt: skip
    assert [key for key in wanted if QKeySequence(key).toString() not in keys] == []


def menus(window: MainWindow) -> Iterator[QMenu]:
    """Yield every menu of the menu bar, and those in them."""
    pending: list[QMenu] = [it for it in (a.menu() for a in window.menuBar().actions()) if isinstance(it, QMenu)]
    while pending:
        menu = pending.pop()
        yield menu
        pending += [it for it in (a.menu() for a in menu.actions()) if isinstance(it, QMenu)]


def mnemonic(text: str) -> str:
    """Return the letter that a text is reached by; empty if there is none."""
    return QKeySequence.mnemonic(text).toString()


def doubled(texts: list[str]) -> dict[str, list[str]]:
    """Return the letters that several texts have."""
    counts = Counter(mnemonic(text) for text in texts)
    return {key: [t for t in texts if mnemonic(t) == key] for key, n in counts.items() if key and n > 1}


def test_letters_are_alone_in_their_menu(full: MainWindow) -> None:
    bar = [action.text() for action in full.menuBar().actions()]
    assert doubled(bar) == {}
    for menu in menus(full):
        texts = [action.text() for action in menu.actions() if not action.isSeparator()]
        assert doubled(texts) == {}, menu.title()


def check_letters(top: QWidget) -> None:
    """Fail where two things that are seen are reached by the same letter."""
    texts = [it.text() for it in top.findChildren(QAbstractButton) if it.isVisible() and it.window() is top]
    texts += [it.text() for it in top.findChildren(QLabel) if it.isVisible() and it.buddy() and it.window() is top]
    for bar in top.findChildren(QTabBar):
        if bar.isVisible() and bar.window() is top:
            texts += [bar.tabText(place) for place in range(bar.count())]
    if isinstance(top, MainWindow):
        texts += [action.text() for action in top.menuBar().actions()]
    assert doubled(texts) == {}


def test_every_action_teaches(full: MainWindow) -> None:
    bare = [name for name, action in full.actions_by_id.items() if len(action.statusTip().split()) < 2]
    assert bare == []


@pytest.mark.parametrize("what", [page.name for page in PAGES])
def test_every_column_teaches(full: MainWindow, qtbot: QtBot, what: str) -> None:
    top = shown(full, qtbot, what)
    bad: list[str] = []
    for view in controls(top):
        header: Callable[[], QHeaderView] | None = getattr(view, "header", getattr(view, "horizontalHeader", None))
        model = view.model() if isinstance(view, QAbstractItemView) else None
        if header is None or model is None or header().isHidden() or view.accessibleName() == "Values":
            continue
        for column in range(model.columnCount()):
            title = model.headerData(column, Qt.Orientation.Horizontal, Qt.ItemDataRole.DisplayRole)
            tip = model.headerData(column, Qt.Orientation.Horizontal, Qt.ItemDataRole.ToolTipRole)
            if title and not header().isSectionHidden(column) and not tip:
                bad.append(f"{name(view)}: {title}")
    assert bad == []


def test_scroll_areas_are_no_stops_of_their_own_without_a_name(full: MainWindow) -> None:
    bad = [
        name(it)
        for it in full.findChildren(QAbstractScrollArea)
        if it.isVisible() and it.focusPolicy() & Qt.FocusPolicy.TabFocus and not it.accessibleName()
    ]
    assert bad == []
