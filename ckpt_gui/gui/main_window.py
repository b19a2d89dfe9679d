"""The window: puts the panels in their places and connects them. It knows no facts and does no work."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import cast

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QCloseEvent, QKeySequence
from PySide6.QtWidgets import QMainWindow, QStackedWidget, QVBoxLayout, QWidget

from ckpt_gui.core.batch import state_of
from ckpt_gui.core.batch_names import distinct
from ckpt_gui.core.errors import Cancelled
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.remote.address import is_url
from ckpt_gui.core.tree import CheckpointIndex
from ckpt_gui.gui.actions import enable, fill_place, make_actions, make_menus
from ckpt_gui.gui.commands import Commands
from ckpt_gui.gui.file_watch import FileWatch
from ckpt_gui.gui.fix_command import repeat_command
from ckpt_gui.gui.jobs import JobManager
from ckpt_gui.gui.language import said
from ckpt_gui.gui.leftover_notices import LeftoverNotices
from ckpt_gui.gui.models.job_book import JobBook
from ckpt_gui.gui.pages import PAGES
from ckpt_gui.gui.panels.checkpoint_panel import CheckpointPanel
from ckpt_gui.gui.panels.close_question import ask_to_close, job_lines
from ckpt_gui.gui.panels.docks import Docks
from ckpt_gui.gui.panels.drop_target import DropTarget
from ckpt_gui.gui.panels.error_panel import ErrorPanel, LoadingPanel
from ckpt_gui.gui.panels.guide import Guide
from ckpt_gui.gui.panels.history_panel import HistoryPanel
from ckpt_gui.gui.panels.inspector_panel import InspectorPanel
from ckpt_gui.gui.panels.jobs_panel import JobsPanel
from ckpt_gui.gui.panels.log_panel import LogPanel
from ckpt_gui.gui.panels.notices import Notices
from ckpt_gui.gui.panels.page_tabs import PageTabs
from ckpt_gui.gui.panels.plan_panel import PlanPanel
from ckpt_gui.gui.panels.start_page import StartPage
from ckpt_gui.gui.panels.status_bar import StatusBar
from ckpt_gui.gui.panels.tool_bar import RecentFiles, ToolBar
from ckpt_gui.gui.panels.tree_panel import TreePanel
from ckpt_gui.gui.plan_keeper import PlanKeeper, is_plan
from ckpt_gui.gui.session import Session
from ckpt_gui.gui.settings import Settings
from ckpt_gui.gui.snapshot import Snapshot
from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.widgets.made_later import MadeLater
from ckpt_gui.gui.window_notices import WindowNotices
from ckpt_gui.gui.window_state import WindowState, session_words

SIZE = QSize(1280, 800)


class MainWindow(QMainWindow):
    """One checkpoint in one window.

    Signals:
        batch_wanted(paths): Several checkpoints were named; they want the window for many.
        window_wanted(path): A checkpoint wants a window of its own; empty for the start page.
        settled(): What was asked for is shown, be it a checkpoint or why there is none.
        leaving(): It is about to close; it still shows what it showed.
        session_wanted(): The user wants to open again what was open last time.
    """

    batch_wanted = Signal(list)
    window_wanted = Signal(str)
    settled = Signal()
    leaving = Signal()
    session_wanted = Signal()

    def __init__(self, settings: Settings, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("main")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.drops = DropTarget(self)
        self.settings, self.theme = settings, theme
        self.jobs = JobManager(self)
        self.job_book = JobBook(self.jobs, self)
        self.session = Session(self.jobs, self)
        self.jobs.command = partial(repeat_command, self.session)
        self.last_path = ""
        self._entered = False  # whether what was opened last is shown, and not only listed
        self.ask_to_close: Callable[[QWidget, Sequence[str]], bool] = ask_to_close
        self.watch = FileWatch(self)
        self.tell = WindowNotices(self)
        self.leftovers = LeftoverNotices(self)
        self.plan_keeper = PlanKeeper(self)
        self.commands = Commands(self)
        self.actions_by_id = make_actions(self, self.commands)
        self._build_panels()
        self._build_docks()
        self._build_tool_bar()
        self._build_menus()
        self._connect()
        self.commands.take_shortcuts()
        self.session.prefer_layout(settings.layout)
        self.jobs.use_all_cores(settings.all_cores)
        self.before: tuple[WindowState, ...] = ()
        theme.settle(self)
        self.resize(SIZE)
        self._show_page(self.start_page)

    # ------------------------------------------------------------------------------------------------------ building

    def _build_panels(self) -> None:
        session, theme = self.session, self.theme
        self.start_page = StartPage(self.settings, theme)
        self.loading_panel = LoadingPanel()
        self.error_panel = ErrorPanel(theme)
        self.page_tabs = PageTabs()
        for page in PAGES:
            self.page_tabs.add(page.name, said(page.title), said(page.tip), partial(page.make, session, theme))
        self.tree_panel = cast(TreePanel, self.page_tabs.page("tensors"))
        self.tree_panel.filter_box.remember(self.settings.filters())
        self.tree_panel.filter_box.used.connect(self.settings.add_filter)
        self.tree_panel.columns.restore(self.settings.columns)
        self.tree_panel.columns.changed.connect(self.settings.keep_columns)
        self.checkpoint_panel = CheckpointPanel(session, theme)
        self.inspector_panel = InspectorPanel(session, theme)
        self.plan_panel = PlanPanel(session, theme)
        self.notices = Notices(theme)
        self.pages = QStackedWidget()
        for state in (self.start_page, self.loading_panel, self.error_panel, self.page_tabs):
            self.pages.addWidget(state)
        centre = QWidget()
        layout = QVBoxLayout(centre)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self.notices)
        layout.addWidget(self.pages, 1)
        self.setCentralWidget(centre)
        self.status_bar = StatusBar(session, self.jobs)
        self.setStatusBar(self.status_bar)

    def _build_docks(self) -> None:
        session = self.session
        self._docks = Docks(
            self,
            {
                "checkpoint": (self.tr("Checkpoint"), self.checkpoint_panel),
                "inspector": (self.tr("Inspector"), self.inspector_panel),
                "plan": (self.tr("Fix plan"), self.plan_panel),
                "history": (self.tr("History"), HistoryPanel(session)),
                "jobs": (self.tr("Jobs"), MadeLater(self._make_jobs)),
                "log": (self.tr("Log"), MadeLater(partial(LogPanel, self.job_book))),
            },
        )
        self.docks = self._docks.by_name
        self.job_book.count_changed.connect(self._count_jobs)
        self.guide = Guide(self.page_tabs, self.tree_panel, self.inspector_panel, self.docks["inspector"])

    def _make_jobs(self) -> JobsPanel:
        panel = JobsPanel(self.job_book, self.theme)
        panel.open_wanted.connect(self.open_path)
        return panel

    def _count_jobs(self, count: int) -> None:
        """Say on the tab how many jobs run."""
        title = self.tr("Jobs")
        self.docks["jobs"].setWindowTitle(f"{title} {count}" if count else title)

    def _build_tool_bar(self) -> None:
        self.tool_bar = ToolBar(self.session, self.actions_by_id)
        self.addToolBar(self.tool_bar)
        self.fix_button = self.tool_bar.fix_button

    def _build_menus(self) -> None:
        places = make_menus(self, self.actions_by_id)
        self.recents = RecentFiles(places["RECENTS"], self.settings, self)
        self.tool_bar.open_button.setMenu(places["RECENTS"])
        undo = self.session.undo_stack.createUndoAction(self, self.tr("&Undo"))
        redo = self.session.undo_stack.createRedoAction(self, self.tr("&Redo"))
        undo.setShortcuts(QKeySequence.keyBindings(QKeySequence.StandardKey.Undo))
        redo.setShortcuts(QKeySequence.keyBindings(QKeySequence.StandardKey.Redo))
        fill_place(places["UNDO"], "UNDO", [undo, redo])
        fill_place(places["COLUMNS"], "COLUMNS", [self.tree_panel.columns.menu.menuAction()])
        places["PAGES"].addActions(self.page_tabs.menu_actions())
        fill_place(places["DOCKS"], "DOCKS", [dock.toggleViewAction() for dock in self.docks.values()])
        self.actions_by_id[f"theme-{self.theme.scheme}"].setChecked(True)

    def _connect(self) -> None:
        session = self.session
        self.commands.serve()
        session.opening.connect(self._on_opening)
        session.listed.connect(self._on_listed)
        session.changed.connect(self._on_snapshot)
        session.failed.connect(self._on_failed)
        session.closed.connect(self.show_start)
        session.refused.connect(self.tell.trouble)
        self.watch.changed.connect(self.tell.files_changed)
        self.drops.refused.connect(self.tell.not_dropped)
        session.undo_stack.cleanChanged.connect(lambda clean: self.setWindowModified(not clean))
        self.jobs.progressed.connect(self.loading_panel.show_progress)
        self.loading_panel.cancel.connect(session.cancel_opening)
        self.tree_panel.selected.connect(self.inspector_panel.show_row)
        self.tree_panel.selected.connect(session.select)
        self.page_tabs.currentChanged.connect(lambda _: self._make_room())
        self.tree_panel.group_selected.connect(self.inspector_panel.show_group)
        self.tree_panel.selection_changed.connect(self.status_bar.show_selection)
        self.checkpoint_panel.finding_chosen.connect(self.guide.show_finding)
        session.keys_wanted.connect(self.guide.show_keys)
        session.key_wanted.connect(self.guide.show_key)
        session.reference.ended.connect(self._on_compared)
        self.drops.hovered.connect(self.start_page.drop_area.set_hot)
        self.drops.dropped.connect(self._on_dropped)
        self.plan_panel.step_selected.connect(self.guide.show_step)
        self.tree_panel.all_shown.connect(self.plan_panel.clear_selection)

    def restore(self) -> None:
        """Put the window and its docks where they were last time."""
        geometry, self._docks.layout = self.settings.window()
        self.restoreGeometry(geometry)

    def open_path(self, path: str, config: str | None = None) -> None:
        """Open a checkpoint, in place of the one that is open; with a config of the user's, if one is given."""
        if self.plan_keeper.may_leave():
            self.session.open(path, config=config)

    def offer_session(self, states: tuple[WindowState, ...]) -> None:
        """Offer what was open last time: on the start page, in the menu and in the palette."""
        self.before = states
        self.start_page.offer_session(session_words(states) if states else "")
        self._enable()

    # ------------------------------------------------------------------------------------------------------ following

    def _on_opening(self, path: str) -> None:
        self.last_path = path
        self._forget_files()
        self.loading_panel.show_path(path)
        self._show_page(self.loading_panel)
        self.setWindowTitle(f"{self._name(path)}[*] – ckpt_gui")

    def _on_listed(self, index: CheckpointIndex) -> None:
        """Show the tensors before what they are is known; the second time, when their shapes are, leave the rest."""
        self.tell.listed(len(index.rows))
        if self.pages.currentWidget() is not self.page_tabs:
            self.page_tabs.show_page("tensors")
            self._show_page(self.page_tabs)
            self.tree_panel.view.setFocus()

    def _on_snapshot(self, snapshot: Snapshot) -> None:
        path = self.session.path or snapshot.source.path
        self.setWindowTitle(f"{self._name(path)}[*] – ckpt_gui")
        self.notices.dismiss("listed")
        if snapshot.export.certain:
            self.notices.dismiss("doubt")
        if not self._entered:
            self._entered = True
            if os.path.exists(path) or is_url(path):
                self.settings.add_recent(path)
                state, _, _ = state_of(snapshot.plan, snapshot.export)
                self.settings.note_recent(path, snapshot.overview.nbytes, state)
            if os.path.exists(path):
                self.leftovers.look(path)
            was_listed = self.pages.currentWidget() is self.page_tabs
            self._show_page(self.page_tabs)
            if not was_listed:
                self.tree_panel.view.setFocus()
        self.watch.watch(snapshot.source.files)
        self.actions_by_id["preview"].setChecked(snapshot.preview is not None)
        self._enable()
        self.settled.emit()

    def _forget_files(self) -> None:
        """Let go of what belongs to the checkpoint that was open."""
        self._entered = False
        self.commands.drop_dialog()
        self.watch.watch(())
        for name in ("changed", "listed", "doubt"):
            self.notices.dismiss(name)
        self.tool_bar.compare_box.show_reference("")

    def _on_compared(self, error: BaseException | None) -> None:
        """Show what is compared with, or say why it can not be."""
        self.tool_bar.compare_box.show_reference(self.session.reference.name)
        if error is None or isinstance(error, Cancelled):
            self.notices.dismiss("trouble")
        else:
            self.tell.trouble(error)

    def _on_failed(self, error: BaseException) -> None:
        self.notices.dismiss("listed")
        self.error_panel.show_error(self.last_path, error, self.jobs.command())
        self._show_page(self.error_panel)
        self.settled.emit()

    def show_start(self) -> None:
        """Show the start page."""
        self._forget_files()
        self.start_page.refresh()
        self._show_page(self.start_page)
        self.setWindowTitle("ckpt_gui[*]")
        self.settled.emit()

    def _show_page(self, page: QWidget) -> None:
        self.pages.setCurrentWidget(page)
        self._docks.show(page is self.page_tabs and self.session.snapshot is not None)
        self._make_room()
        self.tool_bar.setVisible(page is not self.start_page)
        self.status_bar.setVisible(page is not self.start_page)
        self._enable()

    def _make_room(self) -> None:
        """Leave the height of the plan to pages that are not about it."""
        shown = self.pages.currentWidget() is self.page_tabs
        self._docks.make_room(shown and self.page_tabs.current_name != "tensors")

    def _enable(self) -> None:
        page, snapshot = self.pages.currentWidget(), self.session.snapshot
        is_open = page is self.page_tabs and snapshot is not None
        fixable = is_open and snapshot is not None and not snapshot.export.blocked
        self.tool_bar.compare_box.setEnabled(is_open)
        adapter = is_open and snapshot is not None and snapshot.plan.adapter is not None
        enable(
            self.actions_by_id,
            open=is_open,
            path=page is not self.start_page,
            fixable=fixable,
            before=bool(self.before),
            adapter=adapter,
            model=is_open and not adapter,
        )

    @staticmethod
    def _name(path: str) -> str:
        return safe_text(os.path.basename(os.path.normpath(path)) or path, 80)

    def _on_dropped(self, paths: list[str]) -> None:
        """Open a checkpoint here, and several in the window for many; take over a plan."""
        models = distinct(paths)
        if self.session.snapshot is not None and len(models) == 1 and is_plan(models[0]):
            self.plan_keeper.load(models[0])
        elif len(models) == 1:
            self.open_path(models[0])
        else:
            self.batch_wanted.emit(list(models))

    def closeEvent(self, event: QCloseEvent) -> None:
        """Ask if work is running; then stop it, and leave no thread behind."""
        lines = job_lines(self.jobs.running())
        asked = bool(lines) and self.settings.asks_to_close
        if (asked and not self.ask_to_close(self, lines)) or not self.plan_keeper.may_leave():
            event.ignore()
            return
        self.leaving.emit()
        self._show_page(self.start_page)  # keeps the layout of the docks
        self.settings.save_window(self.saveGeometry(), self._docks.layout)
        self.commands.drop_dialog()
        self.session.close()
        self.watch.stop()
        self.jobs.shutdown()
        event.accept()
