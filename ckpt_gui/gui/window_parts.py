"""Makes the parts of a window that its start page does without: a part at a time, so that no pause is felt.

What they need of the core is imported in a thread; what is of Qt is made, and imported, on the thread of the window:
PySide6 makes its classes as they are first named, and no two threads may do that at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, cast

from PySide6.QtGui import QKeySequence

from ckpt_gui.gui.actions import fill_place
from ckpt_gui.gui.language import said
from ckpt_gui.gui.made_in_parts import MadeInParts

if TYPE_CHECKING:
    from ckpt_gui.gui.main_window import MainWindow


def parts_of(window: MainWindow) -> MadeInParts:
    """Return what makes the parts of a window; the same one each time."""
    found = window.findChild(MadeInParts)
    return found if found is not None else MadeInParts(window, _make(window))


def _make(window: MainWindow) -> Iterator[None]:
    """Make the parts, and yield after each; the order is that of the tab key."""
    for make in (
        _make_session, _make_helpers, _make_states, _make_tree, _make_checkpoint, _make_inspector, _make_plan,
        _make_notices, _make_docks, _make_bars, _fill_menus,
    ):  # fmt: skip
        make(window)
        yield
    window.connect_parts()


def _make_session(window: MainWindow) -> None:
    from ckpt_gui.gui.jobs import JobManager
    from ckpt_gui.gui.session import Session

    window.jobs = JobManager(window)
    window.jobs.use_all_cores(window.settings.all_cores)
    window.session = Session(window.jobs, window)
    window.session.prefer_layout(window.settings.layout)


def _make_helpers(window: MainWindow) -> None:
    from ckpt_gui.gui.file_watch import FileWatch
    from ckpt_gui.gui.fix_command import repeat_command
    from ckpt_gui.gui.imports_ahead import ImportsAhead
    from ckpt_gui.gui.leftover_notices import LeftoverNotices
    from ckpt_gui.gui.models.job_book import JobBook
    from ckpt_gui.gui.panels.close_question import ask_to_close
    from ckpt_gui.gui.plan_keeper import PlanKeeper
    from ckpt_gui.gui.window_notices import WindowNotices

    window.job_book = JobBook(window.jobs, window)
    window.jobs.command = partial(repeat_command, window.session)
    window.ask_to_close = ask_to_close
    window.watch = FileWatch(window)
    window.tell = WindowNotices(window)
    window.leftovers = LeftoverNotices(window)
    window.plan_keeper = PlanKeeper(window)
    window.imports_ahead = ImportsAhead(window)


def _make_states(window: MainWindow) -> None:
    from ckpt_gui.gui.pages import PAGES
    from ckpt_gui.gui.panels.error_panel import ErrorPanel
    from ckpt_gui.gui.panels.page_tabs import PageTabs

    window.error_panel = ErrorPanel(window.theme)
    window.page_tabs = PageTabs()
    for page in PAGES:
        make = partial(page.make, window.session, window.theme)
        window.page_tabs.add(page.name, said(page.title), said(page.tip), make)


def _make_tree(window: MainWindow) -> None:
    from ckpt_gui.gui.panels.tree_panel import TreePanel

    window.tree_panel = panel = cast(TreePanel, window.page_tabs.page("tensors"))
    panel.filter_box.remember(window.settings.filters())
    panel.filter_box.used.connect(window.settings.add_filter)
    panel.columns.restore(window.settings.columns)
    panel.columns.changed.connect(window.settings.keep_columns)
    window.pages.addWidget(window.error_panel)
    window.pages.addWidget(window.page_tabs)


def _make_checkpoint(window: MainWindow) -> None:
    from ckpt_gui.gui.panels.checkpoint_panel import CheckpointPanel

    window.checkpoint_panel = CheckpointPanel(window.session, window.theme)


def _make_inspector(window: MainWindow) -> None:
    from ckpt_gui.gui.panels.inspector_panel import InspectorPanel

    window.inspector_panel = InspectorPanel(window.session, window.theme)


def _make_plan(window: MainWindow) -> None:
    from ckpt_gui.gui.panels.plan_panel import PlanPanel

    window.plan_panel = PlanPanel(window.session, window.theme)


def _make_notices(window: MainWindow) -> None:
    from ckpt_gui.gui.panels.notices import Notices

    window.notices = Notices(window.theme)
    window.column.insertWidget(0, window.notices)


def _make_docks(window: MainWindow) -> None:
    from ckpt_gui.gui.panels.docks import Docks
    from ckpt_gui.gui.panels.guide import Guide
    from ckpt_gui.gui.panels.history_panel import HistoryPanel
    from ckpt_gui.gui.panels.log_panel import LogPanel
    from ckpt_gui.gui.widgets.made_later import MadeLater

    window.dock_places = Docks(
        window,
        {
            "checkpoint": (said("Checkpoint"), window.checkpoint_panel),
            "inspector": (said("Inspector"), window.inspector_panel),
            "plan": (said("Fix plan"), window.plan_panel),
            "history": (said("History"), HistoryPanel(window.session)),
            "jobs": (said("Jobs"), MadeLater(window.make_jobs, patient=True)),
            "log": (said("Log"), MadeLater(partial(LogPanel, window.job_book), patient=True)),
        },
    )
    window.dock_places.layout = window.kept_layout
    window.dock_places.appeared.connect(window.settled)
    window.docks = window.dock_places.by_name
    window.job_book.count_changed.connect(window.count_jobs)
    window.guide = Guide(window.page_tabs, window.tree_panel, window.inspector_panel, window.docks["inspector"])


def _make_bars(window: MainWindow) -> None:
    from ckpt_gui.gui.commands import Commands
    from ckpt_gui.gui.panels.status_bar import StatusBar
    from ckpt_gui.gui.panels.tool_bar import ToolBar

    window.commands = Commands(window)
    window.status_bar = StatusBar(window.session, window.jobs)
    window.setStatusBar(window.status_bar)
    window.tool_bar = ToolBar(window.session, window.actions_by_id)
    window.addToolBar(window.tool_bar)


def _fill_menus(window: MainWindow) -> None:
    from ckpt_gui.gui.panels.tool_bar import RecentFiles

    places = window.places
    window.recents = RecentFiles(places["RECENTS"], window.settings, window)
    window.tool_bar.open_button.setMenu(places["RECENTS"])
    undo = window.session.undo_stack.createUndoAction(window, said("&Undo"))
    redo = window.session.undo_stack.createRedoAction(window, said("&Redo"))
    undo.setShortcuts(QKeySequence.keyBindings(QKeySequence.StandardKey.Undo))
    redo.setShortcuts(QKeySequence.keyBindings(QKeySequence.StandardKey.Redo))
    fill_place(places["UNDO"], "UNDO", [undo, redo])
    fill_place(places["COLUMNS"], "COLUMNS", [window.tree_panel.columns.menu.menuAction()])
    places["PAGES"].addActions(window.page_tabs.menu_actions())
    fill_place(places["DOCKS"], "DOCKS", [dock.toggleViewAction() for dock in window.docks.values()])
