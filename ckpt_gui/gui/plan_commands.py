"""What the actions of the fix plan and of the export do. See `actions` for their names and shortcuts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt

from ckpt_gui.gui.edit_commands import EditCommands

if TYPE_CHECKING:
    from ckpt_gui.gui.main_window import MainWindow
    from ckpt_gui.gui.panels.export_dialog import ExportDialog


class PlanCommands(EditCommands):
    """The commands of one window that are about its plan.

    Attributes:
        dialog: The export dialog, once it was asked for; kept while the same checkpoint is open.
    """

    def __init__(self, window: MainWindow) -> None:
        super().__init__(window)
        self.dialog: ExportDialog | None = None

    def fix(self) -> None:
        """Show the plan, and the dialog that carries it out."""
        self._raise_plan()
        self.export()

    def plan_for_all(self) -> None:
        """Show every step of the plan."""
        self._window.plan_panel.show_steps_of(None)
        self._show_plan()

    def plan_for_selection(self) -> None:
        """Show only the steps that concern the selected tensors."""
        self._window.plan_panel.show_steps_of(self._window.tree_panel.selection.keys())
        self._show_plan()

    def _raise_plan(self) -> None:
        plan = self._window.docks["plan"]
        plan.show()
        plan.raise_()

    def _show_plan(self) -> None:
        self._window.page_tabs.show_page("tensors")
        self._raise_plan()
        self._window.plan_panel.tree.setFocus(Qt.FocusReason.ShortcutFocusReason)

    def toggle_preview(self) -> None:
        """Show what would be written in the tree, or the file again."""
        window = self._window
        window.page_tabs.show_page("tensors")
        window.session.set_preview(not window.session.preview)

    def fix_and_export(self) -> None:
        """Show what the plan comes to, and write it once the user says so; or show what stands in the way."""
        snapshot = self._window.session.snapshot
        if snapshot is not None and not snapshot.export.certain:
            self.show_doubt()
            self._window.tell.not_at_once(snapshot.export)
            return
        self.export()
        if self.dialog is not None:
            self.dialog.show_summary()

    def show_doubt(self) -> None:
        """Show the first thing that stands in the way of an export, with the ways out, in the plan."""
        self.plan_for_all()
        self._window.plan_panel.tree.select_doubt()

    def export(self) -> None:
        """Show the dialog that writes the checkpoint."""
        window = self._window
        if window.session.snapshot is None:
            return
        if self.dialog is None:
            from ckpt_gui.gui.panels.export_dialog import ExportDialog

            self.dialog = ExportDialog(window.session, window.theme, window)
            self.dialog.open_result.connect(window.open_path)
            self.dialog.starting.connect(window.settings.add_target)
        self.dialog.show_form()
        self.dialog.show()
        self.dialog.raise_()
        self.dialog.activateWindow()

    def drop_dialog(self) -> None:
        """Let go of the export dialog: another checkpoint has one of its own."""
        if self.dialog is not None:
            self.dialog.leave()
            self.dialog.deleteLater()
            self.dialog = None
