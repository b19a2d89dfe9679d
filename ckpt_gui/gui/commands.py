"""What the actions of the menus, the tool bar and the panels do. See `actions` for their names and shortcuts."""

from __future__ import annotations

import os
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QFileDialog

from ckpt_gui.core.remote.address import is_url
from ckpt_gui.desktop.resources import SAMPLE, resource
from ckpt_gui.gui.models.tree_columns import Mode
from ckpt_gui.gui.pages import HasDifferences, HasParts
from ckpt_gui.gui.panels.location_dialog import LocationDialog
from ckpt_gui.gui.panels.notices import Choice
from ckpt_gui.gui.panels.tree_unfolding import MOST_UNASKED
from ckpt_gui.gui.plan_commands import PlanCommands
from ckpt_gui.gui.window_state import state_of, view_command
from ckpt_gui.gui.wording import count_text

ADAPTERS = "Adapters (adapter_config.json adapter_model.* *.safetensors *.pt *.pth *.bin);;All files (*)"
FILES = "Checkpoints (*.safetensors *.pt *.pth *.bin *.ckpt *.json);;All files (*)"


class Commands(PlanCommands):
    """The commands of one window; others stand in `plan_commands` and `help_commands`."""

    def serve(self) -> None:
        """Do what the pages and panels of the window ask for."""
        window, start, error = self._window, self._window.start_page, self._window.error_panel
        box = window.tool_bar.compare_box
        error.again.connect(self.reload)
        error.other.connect(self.open_file)
        error.leave.connect(self.close_checkpoint)
        error.salvage.connect(self.open_salvage)
        error.explain.connect(self.explain_error)
        window.recents.chosen.connect(window.open_path)
        window.recents.forgotten.connect(start.refresh)
        box.reference_wanted.connect(window.session.compare_with)
        box.file_wanted.connect(self.compare_with_file)
        box.folder_wanted.connect(self.compare_with_folder)
        window.checkpoint_panel.action_wanted.connect(self.trigger)
        window.plan_panel.export_requested.connect(self.export)
        window.plan_panel.wishes.action_wanted.connect(self.trigger)
        window.plan_panel.wishes.rule_wanted.connect(self.edit_rule)
        window.plan_panel.wishes.field_wanted.connect(self.edit_fields)
        window.checkpoint_panel.field_wanted.connect(self.edit_fields)
        window.tree_panel.view.menu_opening.connect(self.fill_menu)

    # ------------------------------------------------------------------------------------------------------- opening

    def open_file(self) -> None:
        """Let the user choose a file."""
        path, _ = QFileDialog.getOpenFileName(self._window, self.tr("Open a checkpoint"), self._folder(), FILES)
        if path:
            self._window.open_path(path)

    def open_folder(self) -> None:
        """Let the user choose a folder."""
        path = QFileDialog.getExistingDirectory(self._window, self.tr("Open a folder of shards"), self._folder())
        if path:
            self._window.open_path(path)

    def open_location(self) -> None:
        """Let the user name the address of a checkpoint on a server."""
        dialog = LocationDialog(self._window)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.chosen.connect(self._window.open_path)
        dialog.open()

    def open_several(self) -> None:
        """Let the user choose many checkpoints, and show the window for them; with none chosen they can be dropped."""
        title = self.tr("Open several checkpoints")
        paths, _ = QFileDialog.getOpenFileNames(self._window, title, self._folder(), FILES)
        self._window.batch_wanted.emit(paths)

    def new_window(self) -> None:
        """Show the checkpoint in a window of its own, too, or the start page."""
        self._window.window_wanted.emit(self._window.session.path or "")

    def open_sample(self) -> None:
        """Open the bundled sample."""
        self._window.open_path(str(resource(SAMPLE)))

    def choose_config(self) -> None:
        """Let the user name a config.json or params.json, and open the checkpoint with it."""
        session = self._window.session
        title = self.tr("Choose a config")
        path, _ = QFileDialog.getOpenFileName(self._window, title, self._folder(), "JSON (*.json)")
        if path and session.path:
            session.reopen(config=path)

    def take_model(self) -> None:
        """Let the user name a file of the model to open, where a folder holds several."""
        path = self._window.session.path or self._window.last_path
        title = self.tr("Choose a file of the model")
        file, _ = QFileDialog.getOpenFileName(self._window, title, self._folder(), FILES)
        if file and path:
            self._window.session.open(path, take=os.path.relpath(file, path))

    def open_salvage(self) -> None:
        """Open what is whole of a damaged file: the one that could not be opened, or one that the user chooses."""
        window = self._window
        path = window.last_path if window.pages.currentWidget() is window.error_panel else ""
        if not path:
            title = self.tr("Open what is whole of a file")
            path, _ = QFileDialog.getOpenFileName(window, title, self._folder(), FILES)
        if path:
            window.session.open(path, salvage=True)

    def compare_with_file(self) -> None:
        """Let the user choose a checkpoint file or a config to compare with."""
        path, _ = QFileDialog.getOpenFileName(self._window, self.tr("Compare with a file"), self._folder(), FILES)
        if path:
            self.compare_with(path)

    def compare_with_folder(self) -> None:
        """Let the user choose a folder to compare with."""
        path = QFileDialog.getExistingDirectory(self._window, self.tr("Compare with a folder"), self._folder())
        if path:
            self.compare_with(path)

    def compare_with(self, name: str) -> None:
        """Compare with a path or a known model."""
        self._window.tool_bar.compare_box.show_reference(name)
        self._window.session.compare_with(name)

    def reload(self) -> None:
        """Open the same path anew; what was decided stays."""
        session = self._window.session
        if session.snapshot is not None:
            session.reopen()
        elif path := session.path or self._window.last_path:
            self._window.open_path(path)

    def close_checkpoint(self) -> None:
        """Close the checkpoint, and leave the page that says why there is none."""
        if not self._window.plan_keeper.may_leave():
            return
        self._window.session.close()
        self._window.show_start()

    def close(self) -> None:
        """Close the window."""
        self._window.close()

    def use_assigned_only(self) -> None:
        """Take each tensor from the shard that the index names, and leave out what it does not."""
        self._window.session.change_policy(assigned_only=True)

    # ------------------------------------------------------------------------------------------------------ adapters

    def merge_adapter(self) -> None:
        """Let the user choose an adapter, and merge it into the open model."""
        title = self.tr("Choose an adapter")
        path, _ = QFileDialog.getOpenFileName(self._window, title, self._folder(), ADAPTERS)
        if path:
            self.merge(path)

    def merge(self, path: str) -> None:
        """Merge an adapter into the open model; its config stands for its folder."""
        file = Path(path)
        self._window.session.merge(str(file.parent if file.name == "adapter_config.json" else file))

    def merge_into(self) -> None:
        """Let the user choose the model that the open adapter was trained on."""
        path = QFileDialog.getExistingDirectory(self._window, self.tr("Choose the base model"), self._folder())
        if path:
            self.open_base(path)

    def open_base(self, path: str) -> None:
        """Open a model, and merge the adapter into it that is open now."""
        session = self._window.session
        if session.path:
            session.open(path, adapter=session.path)

    # --------------------------------------------------------------------------------------------------------- keys

    def copy_keys(self) -> None:
        """Copy the selected keys."""
        self._window.tree_panel.copying.copy_keys()

    def copy_rows(self) -> None:
        """Copy the selected rows."""
        self._window.tree_panel.copying.copy_rows()

    def toggle_dropped(self) -> None:
        """Leave the selected extra tensors out of the export, or take them in again."""
        self._window.tree_panel.dropping.toggle()

    def focus_filter(self) -> None:
        """Go to the filter box."""
        self._window.tree_panel.filter_box.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self._window.tree_panel.filter_box.selectAll()

    def next_difference(self) -> None:
        """Go to the next difference of the page that is shown."""
        self._walk(forward=True)

    def previous_difference(self) -> None:
        """Go to the previous difference of the page that is shown."""
        self._walk(forward=False)

    def _walk(self, *, forward: bool) -> None:
        tabs = self._window.page_tabs
        page = tabs.page(tabs.current_name)
        walked = page if isinstance(page, HasDifferences) else self._window.tree_panel.view
        walked.step(forward=forward)

    def show_as(self, mode: Mode) -> None:
        """Show the keys as a tree, as a flat list, or as families."""
        self._window.tree_panel.set_mode(mode)

    def unfold_selection(self) -> None:
        """Unfold the selected groups and all in them; ask where that is much."""
        panel = self._window.tree_panel
        rows = panel.rows_below_selection()
        if rows <= MOST_UNASKED:
            panel.unfold_selection()
            return
        text = self.tr("That unfolds {number} rows, which takes a while.").format(number=count_text(rows))
        choice = Choice(self.tr("Unfold them all"), panel.unfold_selection)
        self._window.notices.show_notice("unfold", "info", text, (choice,))

    def fold_selection(self) -> None:
        """Fold the selected groups, or those of the selected tensors."""
        self._window.tree_panel.fold_selection()

    def check_values(self) -> None:
        """Turn to the page that reads every weight, and start."""
        tabs = self._window.page_tabs
        tabs.show_page("scan")
        page = tabs.page("scan")
        if isinstance(page, HasParts):
            page.turn_to("start")

    def copy_view(self) -> None:
        """Copy the command that opens the same view again."""
        state = state_of(self._window)
        if state is not None:
            QGuiApplication.clipboard().setText(view_command(state))

    def restore_session(self) -> None:
        """Open again what was open last time."""
        self._window.session_wanted.emit()

    def _folder(self) -> str:
        window = self._window
        named = (window.session.path, window.last_path, *window.settings.recents())
        path = Path(next((text for text in named if text and not is_url(text)), ""))
        return str(path if path.is_dir() else path.parent)
