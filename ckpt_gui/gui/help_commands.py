"""The commands that help: the palette, settings, shortcuts, first steps, the legend, and the explanation of errors.

Their dialogs are imported when they are first asked for: the window is painted sooner.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ckpt_gui.core.rows import paths_of
from ckpt_gui.gui.actions import take_shortcuts
from ckpt_gui.gui.models.palette import KeyLookUp
from ckpt_gui.gui.window_helper import WindowHelper

if TYPE_CHECKING:
    from ckpt_gui.gui.models.deeds import Deed


class HelpCommands(WindowHelper):
    """The commands of one window that help with all others."""

    def trigger(self, name: str) -> None:
        """Do what an action does."""
        self._window.actions_by_id[name].trigger()

    def show_palette(self) -> None:
        """Show every command and every key, to be found by a few letters."""
        from ckpt_gui.gui.panels.palette import Palette

        window = self._window
        window.recents.fill()
        snapshot = window.session.snapshot
        keys = KeyLookUp(paths_of(snapshot.index.rows)) if snapshot is not None else KeyLookUp(())
        palette = Palette(window, keys, window.settings.commands())
        palette.used.connect(window.settings.add_command)
        palette.key_wanted.connect(window.session.show_key)
        palette.open()

    def set_scheme(self, scheme: str) -> None:
        """Choose the colours."""
        window = self._window
        window.theme.set_scheme(scheme)
        window.settings.scheme = scheme
        window.actions_by_id[f"theme-{scheme}"].setChecked(True)

    def show_settings(self) -> None:
        """Show what can be chosen once for all."""
        from ckpt_gui.gui.panels.settings_dialog import SettingsDialog

        window = self._window
        dialog = SettingsDialog(window.settings, window.theme, window)
        dialog.scheme_chosen.connect(self.set_scheme)
        dialog.layout_chosen.connect(window.session.prefer_layout)
        dialog.cores_chosen.connect(window.jobs.use_all_cores)
        dialog.shortcuts_wanted.connect(self.show_shortcuts)
        dialog.recents_changed.connect(window.start_page.refresh)
        dialog.was_reset.connect(self._after_reset)
        dialog.open()

    def show_shortcuts(self) -> None:
        """Show all shortcuts, to be looked up and changed."""
        from ckpt_gui.gui.panels.shortcuts_dialog import ShortcutsDialog

        window = self._window
        dialog = ShortcutsDialog(window, window.settings.shortcuts())
        dialog.changed.connect(window.settings.set_shortcuts)
        dialog.open()

    def take_shortcuts(self) -> None:
        """Give the actions the shortcuts that the user has chosen."""
        take_shortcuts(self._window.actions_by_id, self._window.settings.shortcuts())

    def _after_reset(self) -> None:
        self.set_scheme(self._window.settings.scheme)
        self.take_shortcuts()
        self._window.session.prefer_layout(self._window.settings.layout)
        self._window.jobs.use_all_cores(self._window.settings.all_cores)
        self._window.start_page.refresh()

    def show_help(self) -> None:
        """Show what is where, and how a checkpoint is fixed."""
        from ckpt_gui.gui.panels.help_dialogs import HelpDialog

        ways: dict[str, Callable[[], None]] = {
            "legend": self.show_legend, "shortcuts": self.show_shortcuts, "explain": self.explain_error,
        }  # fmt: skip
        dialog = HelpDialog(self._window)
        dialog.wanted.connect(lambda name: ways[name]())
        dialog.open()

    def show_legend(self) -> None:
        """Show what the glyphs mean."""
        from ckpt_gui.gui.panels.help_dialogs import LegendDialog

        LegendDialog(self._window.theme, self._window).open()

    def explain_error(self) -> None:
        """Show the box that explains a pasted message; the window can be used beside it."""
        from ckpt_gui.gui.panels.explain_dialog import ExplainDialog

        window = self._window
        found = window.findChild(ExplainDialog)
        if found is None or not found.isVisible():  # a closed one is on its way out
            found = ExplainDialog(window.session, window.theme, window)
            found.deed_wanted.connect(self.do)
            found.path_wanted.connect(window.open_path)
        found.show()
        found.raise_()
        found.activateWindow()

    def do(self, deed: Deed) -> None:
        """Do what a button of an explanation says: decide, if there is something to decide, and then act."""
        session = self._window.session
        if deed.target:
            session.change_target(**dict(deed.target))
        if deed.policy:
            session.change_policy(**dict(deed.policy))
        self.trigger(deed.action)

    def show_findings(self) -> None:
        """Go to what the checkpoint is and what is wrong with it."""
        dock = self._window.docks["checkpoint"]
        dock.show()
        dock.raise_()
        self._window.checkpoint_panel.focus_first()

    def show_about(self) -> None:
        """Show what the program is."""
        from ckpt_gui.gui.panels.help_dialogs import AboutDialog

        AboutDialog(self._window).open()
