"""The window: puts the panels in their places and connects them. It knows no facts and does no work.

It begins with its menus and the start page, which need little of this program. The other parts, and with them most
imports, are made once that is painted (see `window_parts`), or at once when something is asked for that needs them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

from PySide6.QtCore import QByteArray, QObject, QSize, Qt, Signal
from PySide6.QtGui import QCloseEvent
from PySide6.QtWidgets import QDockWidget, QMainWindow, QStackedWidget, QVBoxLayout, QWidget

from ckpt_gui.core.batch_names import distinct
from ckpt_gui.core.keys import safe_text
from ckpt_gui.gui.actions import enable, make_actions, make_menus
from ckpt_gui.gui.panels.drop_target import DropTarget
from ckpt_gui.gui.panels.loading_panel import LoadingPanel
from ckpt_gui.gui.panels.start_page import StartPage
from ckpt_gui.gui.session_file import WindowState, session_words
from ckpt_gui.gui.settings import Settings
from ckpt_gui.gui.theme import Theme

if TYPE_CHECKING:
    from ckpt_gui.gui.commands import Commands
    from ckpt_gui.gui.file_watch import FileWatch
    from ckpt_gui.gui.imports_ahead import ImportsAhead
    from ckpt_gui.gui.jobs import JobManager
    from ckpt_gui.gui.leftover_notices import LeftoverNotices
    from ckpt_gui.gui.models.job_book import JobBook
    from ckpt_gui.gui.panels.checkpoint_panel import CheckpointPanel
    from ckpt_gui.gui.panels.docks import Docks
    from ckpt_gui.gui.panels.error_panel import ErrorPanel
    from ckpt_gui.gui.panels.guide import Guide
    from ckpt_gui.gui.panels.inspector_panel import InspectorPanel
    from ckpt_gui.gui.panels.jobs_panel import JobsPanel
    from ckpt_gui.gui.panels.notices import Notices
    from ckpt_gui.gui.panels.page_tabs import PageTabs
    from ckpt_gui.gui.panels.plan_panel import PlanPanel
    from ckpt_gui.gui.panels.status_bar import StatusBar
    from ckpt_gui.gui.panels.tool_bar import RecentFiles, ToolBar
    from ckpt_gui.gui.panels.tree_panel import TreePanel
    from ckpt_gui.gui.plan_keeper import PlanKeeper
    from ckpt_gui.gui.session import Session
    from ckpt_gui.gui.window_notices import WindowNotices

SIZE = QSize(1280, 800)


class MainWindow(QMainWindow):
    """One checkpoint in one window.

    Args:
        settings: What is remembered.
        theme: How it looks.
        whole: Make all parts now; otherwise `complete` does.

    Attributes:
        is_whole: Whether all parts are made; the attributes that only name a type are not there before.

    Signals:
        completed(): All parts are made.
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
    completed = Signal()

    jobs: JobManager
    job_book: JobBook
    session: Session
    watch: FileWatch
    tell: WindowNotices
    leftovers: LeftoverNotices
    plan_keeper: PlanKeeper
    imports_ahead: ImportsAhead
    commands: Commands
    error_panel: ErrorPanel
    page_tabs: PageTabs
    tree_panel: TreePanel
    checkpoint_panel: CheckpointPanel
    inspector_panel: InspectorPanel
    plan_panel: PlanPanel
    notices: Notices
    status_bar: StatusBar
    dock_places: Docks
    docks: dict[str, QDockWidget]
    guide: Guide
    tool_bar: ToolBar
    recents: RecentFiles
    ask_to_close: Callable[[QWidget, Sequence[str]], bool]

    def __init__(self, settings: Settings, theme: Theme, parent: QWidget | None = None, *, whole: bool = True) -> None:
        super().__init__(parent)
        self.setObjectName("main")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.drops = DropTarget(self)
        self.settings, self.theme = settings, theme
        self.is_whole = False
        self.last_path = ""
        self.kept_layout = QByteArray()  # of the docks, until they are there
        self.before: tuple[WindowState, ...] = ()
        self.actions_by_id = make_actions(self, _Calls(self).call, settings.shortcuts())
        self.places = make_menus(self, self.actions_by_id)
        self.actions_by_id[f"theme-{theme.scheme}"].setChecked(True)
        self._build_pages()
        theme.settle(self)
        self.resize(SIZE)
        self.show_page(self.start_page)
        if whole:
            self.complete()

    # ------------------------------------------------------------------------------------------------------ building

    def _build_pages(self) -> None:
        self.start_page = start = StartPage(self.settings, self.theme)
        self.loading_panel = LoadingPanel()
        self.pages = QStackedWidget()
        self.pages.addWidget(start)
        self.pages.addWidget(self.loading_panel)
        centre = QWidget()
        self.column = QVBoxLayout(centre)
        self.column.setContentsMargins(0, 0, 0, 0)
        self.column.setSpacing(0)
        self.column.addWidget(self.pages, 1)
        self.setCentralWidget(centre)
        start.open_file.connect(self.actions_by_id["open-file"].trigger)
        start.open_folder.connect(self.actions_by_id["open-folder"].trigger)
        start.open_sample.connect(self.actions_by_id["open-sample"].trigger)
        start.explain_error.connect(self.actions_by_id["explain"].trigger)
        start.session_wanted.connect(self.actions_by_id["restore-session"].trigger)
        start.open_path.connect(self.open_path)
        start.open_beside.connect(self.window_wanted)
        self.drops.hovered.connect(start.drop_area.set_hot)
        self.drops.dropped.connect(self._on_dropped)
        self.drops.refused.connect(self._on_not_dropped)

    def complete(self) -> None:
        """Make what is not made yet, at once."""
        if not self.is_whole:
            from ckpt_gui.gui.window_parts import parts_of

            parts_of(self).finish()

    def complete_later(self) -> None:
        """Make what is not made yet, a part at a time, from the first picture on."""
        from ckpt_gui.gui.window_parts import parts_of

        parts_of(self).begin()

    @property
    def is_broken(self) -> bool:
        """Whether a part can not be made."""
        from ckpt_gui.gui.window_parts import parts_of

        return parts_of(self).broken

    def connect_parts(self) -> None:
        """Follow the parts, which are all there now, and show what the window is asked to show."""
        from ckpt_gui.gui.window_session import SessionView

        session = self.session
        self.commands.serve()
        SessionView(self)
        session.refused.connect(self.tell.trouble)
        self.watch.changed.connect(self.tell.files_changed)
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
        self.plan_panel.step_selected.connect(self.guide.show_step)
        self.tree_panel.all_shown.connect(self.plan_panel.clear_selection)
        self.is_whole = True
        self.show_page(self.pages.currentWidget() or self.start_page)
        self.completed.emit()

    def restore(self) -> None:
        """Put the window and its docks where they were last time."""
        geometry, self.kept_layout = self.settings.window()
        self.restoreGeometry(geometry)
        if self.is_whole:
            self.dock_places.layout = self.kept_layout

    def expect(self, path: str) -> None:
        """Show that a path will be opened as soon as all parts are there."""
        self.last_path = path
        self.loading_panel.show_path(path)
        self.show_page(self.loading_panel)
        self.show_title(path)

    def open_path(self, path: str, config: str | None = None) -> None:
        """Open a checkpoint, in place of the one that is open; with a config of the user's, if one is given."""
        self.complete()
        if self.plan_keeper.may_leave():
            self.session.open(path, config=config)

    def offer_session(self, states: tuple[WindowState, ...]) -> None:
        """Offer what was open last time: on the start page, in the menu and in the palette."""
        self.before = states
        self.start_page.offer_session(session_words(states) if states else "")
        self.enable_actions()

    def make_jobs(self) -> JobsPanel:
        """Return the list of the jobs."""
        from ckpt_gui.gui.panels.jobs_panel import JobsPanel

        panel = JobsPanel(self.job_book, self.theme)
        panel.open_wanted.connect(self.open_path)
        return panel

    def count_jobs(self, count: int) -> None:
        """Say on the tab how many jobs run."""
        title = self.tr("Jobs")
        self.docks["jobs"].setWindowTitle(f"{title} {count}" if count else title)

    # -------------------------------------------------------------------------------------------------------- showing

    def show_start(self) -> None:
        """Show the start page."""
        self.start_page.refresh()
        self.show_page(self.start_page)
        self.setWindowTitle("ckpt_gui[*]")
        self.settled.emit()

    def show_title(self, path: str) -> None:
        """Say in the title what is open."""
        self.setWindowTitle(f"{safe_text(os.path.basename(os.path.normpath(path)) or path, 80)}[*] – ckpt_gui")

    def show_page(self, page: QWidget) -> None:
        """Show a page of the window, with the docks and bars that belong to it."""
        self.pages.setCurrentWidget(page)
        self.enable_actions()
        if not self.is_whole:
            return
        self.dock_places.show(page is self.page_tabs and self.session.snapshot is not None)
        self._make_room()
        self.tool_bar.setVisible(page is not self.start_page)
        self.status_bar.setVisible(page is not self.start_page)

    def _make_room(self) -> None:
        """Leave the height of the plan to pages that are not about it."""
        shown = self.pages.currentWidget() is self.page_tabs
        self.dock_places.make_room(shown and self.page_tabs.current_name != "tensors")

    def enable_actions(self) -> None:
        """Enable the actions that can be done now."""
        page, snapshot = self.pages.currentWidget(), self.session.snapshot if self.is_whole else None
        is_open = snapshot is not None and page is self.page_tabs
        fixable = is_open and snapshot is not None and not snapshot.export.blocked
        if self.is_whole:
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

    def _on_dropped(self, paths: list[str]) -> None:
        """Open a checkpoint here, and several in the window for many; take over a plan."""
        from ckpt_gui.gui.plan_keeper import is_plan

        self.complete()
        models = distinct(paths)
        if self.session.snapshot is not None and len(models) == 1 and is_plan(models[0]):
            self.plan_keeper.load(models[0])
        elif len(models) == 1:
            self.open_path(models[0])
        else:
            self.batch_wanted.emit(list(models))

    def _on_not_dropped(self) -> None:
        self.complete()
        self.tell.not_dropped()

    def closeEvent(self, event: QCloseEvent) -> None:
        """Ask if work is running; then stop it, and leave no thread behind."""
        if not self.is_whole:
            event.accept()
            return
        from ckpt_gui.gui.panels.close_question import job_lines

        lines = job_lines(self.jobs.running())
        asked = bool(lines) and self.settings.asks_to_close
        if (asked and not self.ask_to_close(self, lines)) or not self.plan_keeper.may_leave():
            event.ignore()
            return
        self.leaving.emit()
        self.show_page(self.start_page)  # keeps the layout of the docks
        self.settings.save_window(self.saveGeometry(), self.dock_places.layout)
        self.commands.drop_dialog()
        self.session.close()
        self.watch.stop()
        self.jobs.shutdown()
        event.accept()


class _Calls(QObject):
    """Calls the commands of a window, which may be among the parts that are not made yet."""

    def __init__(self, window: MainWindow) -> None:
        super().__init__(window)

    def call(self, handler: str, *words: str) -> None:
        """Call a command by the name of its method."""
        window = cast(MainWindow, self.parent())  # not an attribute, so that Python frees a closed window at once
        window.complete()
        getattr(window.commands, handler)(*words)
