"""The window: puts the panels in their places and connects them. It knows no facts and does no work."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

from PySide6.QtCore import QByteArray, QSize, Qt, Signal
from PySide6.QtGui import QCloseEvent, QDragEnterEvent, QDragLeaveEvent, QDropEvent, QKeySequence
from PySide6.QtWidgets import (
    QDialog,
    QDockWidget,
    QFileDialog,
    QMainWindow,
    QMessageBox,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)  # fmt: skip

from ckpt_gui.core.errors import CheckpointError, Finding
from ckpt_gui.core.keys import safe_text
from ckpt_gui.gui.actions import enable, fill_place, make_actions, make_menus
from ckpt_gui.gui.jobs import JobManager
from ckpt_gui.gui.panels.checkpoint_panel import CheckpointPanel
from ckpt_gui.gui.panels.error_panel import ErrorPanel, LoadingPanel
from ckpt_gui.gui.panels.help_dialogs import AboutDialog, LegendDialog
from ckpt_gui.gui.panels.inspector_panel import InspectorPanel
from ckpt_gui.gui.panels.parts import DockTitle
from ckpt_gui.gui.panels.plan_panel import PlanPanel
from ckpt_gui.gui.panels.start_page import StartPage
from ckpt_gui.gui.panels.status_bar import StatusBar
from ckpt_gui.gui.panels.tool_bar import RecentFiles, ToolBar
from ckpt_gui.gui.panels.tree_panel import TreePanel
from ckpt_gui.gui.panels.trouble_bar import TroubleBar
from ckpt_gui.gui.resources import SAMPLE, resource
from ckpt_gui.gui.session import Session, Snapshot
from ckpt_gui.gui.settings import LAYOUT_VERSION, Settings
from ckpt_gui.gui.theme import Theme

FILES = "Checkpoints (*.safetensors *.pt *.pth *.bin *.ckpt *.json);;All files (*)"
SIZE = QSize(1280, 800)


class MainWindow(QMainWindow):
    """One checkpoint in one window.

    Signals:
        more_paths(paths): Several were dropped; the rest want windows of their own.
        settled(): What was asked for is shown, be it a checkpoint or why there is none.
    """

    more_paths = Signal(list)
    settled = Signal()

    def __init__(self, settings: Settings, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("main")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setAcceptDrops(True)
        self.settings, self.theme = settings, theme
        self.jobs = JobManager(self)
        self.session = Session(self.jobs, self)
        self._last_path = ""
        self._layout = QByteArray()  # how the docks lie while a checkpoint is open
        self._dialog: QDialog | None = None
        self.ask_to_close: Callable[[Sequence[str]], bool] = self._ask_to_close
        self.actions_by_id = make_actions(self)
        self._build_panels()
        self._build_docks()
        self._build_tool_bar()
        self._build_menus()
        self._connect()
        self.resize(SIZE)
        self._show_page(self.start_page)

    # ------------------------------------------------------------------------------------------------------ building

    def _build_panels(self) -> None:
        session, theme = self.session, self.theme
        self.start_page = StartPage(self.settings, theme)
        self.loading_panel = LoadingPanel()
        self.error_panel = ErrorPanel(theme)
        self.tree_panel = TreePanel(session, theme)
        self.checkpoint_panel = CheckpointPanel(session, theme)
        self.inspector_panel = InspectorPanel(session, theme)
        self.plan_panel = PlanPanel(session, theme)
        self.plan_panel.setMinimumWidth(20 * self.fontMetrics().height())
        self.trouble_bar = TroubleBar(theme)
        self.pages = QStackedWidget()
        for page in (self.start_page, self.loading_panel, self.error_panel, self.tree_panel):
            self.pages.addWidget(page)
        centre = QWidget()
        layout = QVBoxLayout(centre)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self.trouble_bar)
        layout.addWidget(self.pages, 1)
        self.setCentralWidget(centre)
        self.status_bar = StatusBar(session, self.jobs)
        self.setStatusBar(self.status_bar)

    def _build_docks(self) -> None:
        areas = Qt.DockWidgetArea
        self.docks = {
            name: self._dock(name, title, widget, area)
            for name, title, widget, area in (
                ("checkpoint", self.tr("Checkpoint"), self.checkpoint_panel, areas.LeftDockWidgetArea),
                ("inspector", self.tr("Inspector"), self.inspector_panel, areas.RightDockWidgetArea),
                ("plan", self.tr("Fix plan"), self.plan_panel, areas.BottomDockWidgetArea),
            )
        }
        self.setCorner(Qt.Corner.BottomLeftCorner, areas.LeftDockWidgetArea)
        self.setCorner(Qt.Corner.BottomRightCorner, areas.RightDockWidgetArea)

    def _dock(self, name: str, title: str, widget: QWidget, area: Qt.DockWidgetArea) -> QDockWidget:
        dock = QDockWidget(title, self)
        dock.setObjectName(name)
        dock.setWidget(widget)
        dock.setTitleBarWidget(DockTitle(dock))
        dock.setFeatures(
            QDockWidget.DockWidgetFeature.DockWidgetMovable | QDockWidget.DockWidgetFeature.DockWidgetClosable
        )
        self.addDockWidget(area, dock)
        dock.hide()
        return dock

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
        fill_place(places["DOCKS"], "DOCKS", [dock.toggleViewAction() for dock in self.docks.values()])
        self.actions_by_id[f"theme-{self.theme.scheme}"].setChecked(True)

    def _connect(self) -> None:
        session, start, error = self.session, self.start_page, self.error_panel
        session.opening.connect(self._on_opening)
        session.changed.connect(self._on_snapshot)
        session.failed.connect(self._on_failed)
        session.closed.connect(self._on_closed)
        session.refused.connect(self.show_trouble)
        session.undo_stack.cleanChanged.connect(lambda clean: self.setWindowModified(not clean))
        self.jobs.progressed.connect(self.loading_panel.show_progress)
        self.loading_panel.cancel.connect(session.cancel_opening)
        start.open_file.connect(self.open_file)
        start.open_folder.connect(self.open_folder)
        start.open_sample.connect(self.open_sample)
        start.open_path.connect(self.open_path)
        error.again.connect(self.reload)
        error.other.connect(self.open_file)
        error.leave.connect(self.close_checkpoint)
        self.recents.chosen.connect(self.open_path)
        self.recents.forgotten.connect(start.refresh)
        self.tree_panel.selected.connect(self.inspector_panel.show_row)
        self.tree_panel.selection_changed.connect(self.status_bar.show_selection)
        self.checkpoint_panel.finding_chosen.connect(self._on_finding)
        self.checkpoint_panel.config_wanted.connect(self.choose_config)
        self.plan_panel.step_selected.connect(self._on_step)
        self.plan_panel.export_requested.connect(self.export)

    def restore(self) -> None:
        """Put the window and its docks where they were last time."""
        geometry, self._layout = self.settings.window()
        self.restoreGeometry(geometry)

    # ------------------------------------------------------------------------------------------------------- actions

    def open_path(self, path: str) -> None:
        """Open a checkpoint, in place of the one that is open."""
        self.session.open(path)

    def open_file(self) -> None:
        """Let the user choose a file."""
        path, _ = QFileDialog.getOpenFileName(self, self.tr("Open a checkpoint"), self._folder(), self.tr(FILES))
        if path:
            self.open_path(path)

    def open_folder(self) -> None:
        """Let the user choose a folder."""
        path = QFileDialog.getExistingDirectory(self, self.tr("Open a folder of shards"), self._folder())
        if path:
            self.open_path(path)

    def open_sample(self) -> None:
        """Open the bundled sample."""
        self.open_path(str(resource(SAMPLE)))

    def choose_config(self) -> None:
        """Let the user name a config.json or params.json, and open the checkpoint with it."""
        path, _ = QFileDialog.getOpenFileName(self, self.tr("Choose a config"), self._folder(), "JSON (*.json)")
        if path and self.session.path:
            self.session.open(self.session.path, config=path)

    def reload(self) -> None:
        """Open the same path anew."""
        path = self.session.path or self._last_path
        if path:
            self.open_path(path)

    def close_checkpoint(self) -> None:
        """Close the checkpoint and show the start page."""
        self.session.close()
        self._on_closed()

    def copy_keys(self) -> None:
        """Copy the selected keys."""
        self.tree_panel.view.copy_keys()

    def copy_rows(self) -> None:
        """Copy the selected rows."""
        self.tree_panel.view.copy_rows()

    def toggle_dropped(self) -> None:
        """Leave the selected extra tensors out of the export, or take them in again."""
        self.tree_panel.toggle_dropped()

    def focus_filter(self) -> None:
        """Go to the filter box."""
        self.tree_panel.filter_box.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.tree_panel.filter_box.selectAll()

    def next_difference(self) -> None:
        """Go to the next difference."""
        self.tree_panel.view.step(forward=True)

    def previous_difference(self) -> None:
        """Go to the previous difference."""
        self.tree_panel.view.step(forward=False)

    def show_as(self, mode: str) -> None:
        """Show the keys as a tree or as a list."""
        self.tree_panel.set_flat(mode == "list")

    def set_scheme(self, scheme: str) -> None:
        """Choose the colours."""
        self.theme.set_scheme(scheme)
        self.settings.scheme = scheme

    def fix(self) -> None:
        """Show the plan, and the dialog that carries it out."""
        self.docks["plan"].show()
        self.docks["plan"].raise_()
        self.export()

    def export(self) -> None:
        """Show the dialog that writes the checkpoint."""
        if self.session.snapshot is None:
            return
        if self._dialog is None:
            from ckpt_gui.gui.panels.export_dialog import ExportDialog

            dialog = ExportDialog(self.session, self.theme, self)
            dialog.open_result.connect(self.open_path)
            self._dialog = dialog
        self._dialog.show()
        self._dialog.raise_()
        self._dialog.activateWindow()

    def show_legend(self) -> None:
        """Show what the glyphs mean."""
        LegendDialog(self.theme, self).open()

    def show_about(self) -> None:
        """Show what the program is."""
        AboutDialog(self).open()

    def show_trouble(self, error: BaseException) -> None:
        """Say in the bar that something went wrong."""
        if isinstance(error, CheckpointError):
            self.trouble_bar.show_text(" ".join(filter(None, (error.message, error.fix))))
        else:
            text = self.tr("Something went wrong: {}. What is open is still there.").format(
                f"{type(error).__name__}: {error}"
            )
            self.trouble_bar.show_text(text, "".join(traceback.format_exception(error)))

    # ------------------------------------------------------------------------------------------------------ following

    def _on_opening(self, path: str) -> None:
        self._last_path = path
        self._drop_dialog()
        self.loading_panel.show_path(path)
        self._show_page(self.loading_panel)
        self.setWindowTitle(f"{self._name(path)}[*] – ckpt_gui")

    def _on_snapshot(self, snapshot: Snapshot) -> None:
        path = self.session.path or snapshot.source.path
        self.setWindowTitle(f"{self._name(path)}[*] – ckpt_gui")
        if self.pages.currentWidget() is not self.tree_panel:
            if os.path.exists(path):
                self.settings.add_recent(path)
            self._show_page(self.tree_panel)
            self.tree_panel.view.setFocus()
        self.settled.emit()

    def _on_failed(self, error: BaseException) -> None:
        self.error_panel.show_error(self._last_path, error)
        self._show_page(self.error_panel)
        self.settled.emit()

    def _on_closed(self) -> None:
        self._drop_dialog()
        self.start_page.refresh()
        self._show_page(self.start_page)
        self.setWindowTitle("ckpt_gui[*]")
        self.settled.emit()

    def _on_finding(self, finding: Finding) -> None:
        """Show the tensors of a finding. Missing ones go by their state: they have other names in other layouts."""
        if finding.code == "missing-tensor":
            self.tree_panel.show_state("missing")
        else:
            self.tree_panel.show_keys(finding.keys, finding.code)
        self.tree_panel.select_first()

    def _on_step(self, keys: tuple[str, ...]) -> None:
        """Show the tensors of a step of the plan; all of them again when none is selected."""
        title = self.tr("the selected step")
        if keys:
            self.tree_panel.show_keys(keys, title)
        elif self.tree_panel.only == title:
            self.tree_panel.show_keys(None)

    def _show_page(self, page: QWidget) -> None:
        is_open, was_open = page is self.tree_panel, self.pages.currentWidget() is self.tree_panel
        if was_open and not is_open:
            self._layout = self.saveState(LAYOUT_VERSION)
        self.pages.setCurrentWidget(page)
        for dock in self.docks.values():
            dock.setVisible(is_open)
            dock.toggleViewAction().setEnabled(is_open)
        if is_open and (self._layout.isEmpty() or not self.restoreState(self._layout, LAYOUT_VERSION)):
            self._size_docks()
        self.tool_bar.setVisible(page is not self.start_page)
        self.status_bar.setVisible(page is not self.start_page)
        enable(self.actions_by_id, is_open=is_open, has_path=page is not self.start_page)

    def _size_docks(self) -> None:
        em = self.fontMetrics().height()
        sides = [self.docks["checkpoint"], self.docks["inspector"]]
        widths = [min(19 * em, self.width() * 22 // 100), min(22 * em, self.width() * 25 // 100)]
        self.resizeDocks(sides, widths, Qt.Orientation.Horizontal)
        self.resizeDocks([self.docks["plan"]], [min(17 * em, self.height() * 30 // 100)], Qt.Orientation.Vertical)

    def _drop_dialog(self) -> None:
        if self._dialog is not None:
            self._dialog.close()
            self._dialog.deleteLater()
            self._dialog = None

    def _folder(self) -> str:
        path = Path(self.session.path or self._last_path or next(iter(self.settings.recents()), ""))
        return str(path if path.is_dir() else path.parent)

    @staticmethod
    def _name(path: str) -> str:
        return safe_text(os.path.basename(os.path.normpath(path)) or path, 80)

    # --------------------------------------------------------------------------------------------------------- events

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        """Welcome files and folders."""
        if any(url.isLocalFile() for url in event.mimeData().urls()):
            event.acceptProposedAction()
            self.start_page.drop_area.set_hot(True)

    def dragLeaveEvent(self, event: QDragLeaveEvent) -> None:
        """Calm down."""
        self.start_page.drop_area.set_hot(False)

    def dropEvent(self, event: QDropEvent) -> None:
        """Open the first path here, and ask for more windows for the rest."""
        self.start_page.drop_area.set_hot(False)
        paths = [url.toLocalFile() for url in event.mimeData().urls() if url.isLocalFile()]
        if paths:
            event.acceptProposedAction()
            self.open_path(paths[0])
        if paths[1:]:
            self.more_paths.emit(paths[1:])

    def closeEvent(self, event: QCloseEvent) -> None:
        """Ask if work is running; then stop it, and leave no thread behind."""
        titles = [job.title for job in self.jobs.running() if not job.quiet]
        if titles and not self.ask_to_close(titles):
            event.ignore()
            return
        self._show_page(self.start_page)  # keeps the layout of the docks
        self.settings.save_window(self.saveGeometry(), self._layout)
        self._drop_dialog()
        self.session.close()
        self.jobs.shutdown()
        event.accept()

    def _ask_to_close(self, titles: Sequence[str]) -> bool:
        box = QMessageBox(
            QMessageBox.Icon.Question, self.tr("Close ckpt_gui?"), self.tr("This is still running:"), parent=self
        )
        box.setTextFormat(Qt.TextFormat.PlainText)
        box.setInformativeText("\n".join(titles))
        leave = box.addButton(self.tr("Stop it and close"), QMessageBox.ButtonRole.DestructiveRole)
        box.setDefaultButton(box.addButton(self.tr("Keep it running"), QMessageBox.ButtonRole.RejectRole))
        box.exec()
        return box.clickedButton() is leave
