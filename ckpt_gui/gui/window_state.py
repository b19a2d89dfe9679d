"""What a window shows, taken from it and brought about again, and said as a command."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ckpt_gui.core.remote.address import is_url
from ckpt_gui.gui.fix_command import joined
from ckpt_gui.gui.models.tree_columns import Mode
from ckpt_gui.gui.pages import HasParts
from ckpt_gui.gui.session_file import WindowState

if TYPE_CHECKING:
    from ckpt_gui.gui.main_window import MainWindow

MODES: dict[str, Mode] = {"tree": "tree", "list": "flat", "flat": "flat", "families": "families"}  # words of --view
VIEWS = (*MODES, "plan", "export")


def state_of(window: MainWindow) -> WindowState | None:
    """Return what a window shows; None if nothing is open in it."""
    session = window.session
    if session.snapshot is None or not session.path:
        return None
    filtered = window.tree_panel.filter_box.text().strip()
    rows = window.tree_panel.view.selected_rows()
    return WindowState(
        path=session.path if is_url(session.path) else os.path.abspath(session.path),
        page=window.page_tabs.current_name,
        mode=window.tree_panel.chosen_mode,
        filter=filtered,
        select=rows[0].path if rows else "",
        against=session.reference.name,
        config=session.decisions.config,
        plan=session.decisions.plan_text() if session.unsaved else "",
    )


def view_command(state: WindowState) -> str:
    """Return the command that opens the same view again.

    >>> view_command(WindowState("/m/a.pt", page="tensors", filter="dtype:bf16", select="w"))
    'ckpt-gui /m/a.pt --filter dtype:bf16 --select w'
    """
    words = ["ckpt-gui", state.path]
    for flag, text in (("--against", state.against), ("--filter", state.filter), ("--select", state.select)):
        words += [flag, text] if text else []
    view = state.page if state.page not in ("", "tensors") else state.mode
    return joined([*words, *(("--view", view) if view else ())])


def once(window: MainWindow, act: Callable[[], None]) -> None:
    """Act when the window has shown what it was asked for; only the first time."""
    done: list[bool] = []

    def settled() -> None:
        if not done:
            done.append(True)
            act()

    window.settled.connect(settled)


def reopen(window: MainWindow, state: WindowState) -> None:
    """Open what a state names, and show it as it was."""
    view = state.page if state.page != "tensors" else ""
    once(window, lambda: arrange(window, state.select, state.filter, view or None, state.against))
    if state.plan:
        once(window, lambda: window.plan_keeper.take_text(state.plan))
    if mode := MODES.get(state.mode):
        once(window, lambda: window.commands.show_as(mode))
    window.open_path(state.path, config=state.config or None)


def arrange(
    window: MainWindow, select: str | None, text: str | None, view: str | None, against: str | None = None
) -> None:
    """Bring a window that has opened its checkpoint into a state.

    Args:
        window: The window.
        select: Key of the tensor to select.
        text: Text for the filter box.
        view: `tree`, `list`, `families`, `plan`, `export`, the name of a page (or `page/part`), or of a tab of the
            inspector.
        against: What to compare with.
    """
    if window.session.snapshot is None:
        return
    if against:
        window.commands.compare_with(against)
    if mode := MODES.get(view or ""):
        window.commands.show_as(mode)
    if text:
        window.tree_panel.set_filter(text)
    if select and not window.tree_panel.select_key(select):
        window.notices.show_notice("select", "warning", f"There is no tensor `{select}` in this checkpoint.")
    if view in ("plan", "export"):
        window.commands.export() if view == "export" else window.docks["plan"].raise_()
    elif view and view not in VIEWS and not _show_page(window, view) and not _show_tab(window.inspector_panel, view):
        window.notices.show_notice("view", "warning", f"There is no view {view}.")


def _show_page(window: MainWindow, view: str) -> bool:
    """Show a page by its name, or a part of it as `plots/heat`."""
    name, _, part = view.partition("/")
    if name not in window.page_tabs.names:
        return False
    window.page_tabs.show_page(name)
    page = window.page_tabs.page(name)
    return not part or (isinstance(page, HasParts) and page.turn_to(part))


def _show_tab(inspector: Any, name: str) -> bool:
    """Show a tab of the inspector by the first word of its title."""
    tabs = inspector.tabs
    for place in range(tabs.count()):
        if tabs.tabText(place).replace("&", "").lower().startswith(name.lower()):
            tabs.setCurrentIndex(place)
            return True
    return False
