"""What a window shows, as a value: kept when the program ends, offered at the next start, and said as a command."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.remote.address import is_url
from ckpt_gui.core.text import plural
from ckpt_gui.dataclasses import asdict, dataclass, fields
from ckpt_gui.gui.fix_command import joined
from ckpt_gui.gui.models.tree_columns import Mode
from ckpt_gui.gui.pages import HasParts

if TYPE_CHECKING:
    from ckpt_gui.gui.main_window import MainWindow

VERSION = 1
MODES: dict[str, Mode] = {"tree": "tree", "list": "flat", "flat": "flat", "families": "families"}  # words of --view
VIEWS = (*MODES, "plan", "export")


@dataclass(frozen=True, slots=True)
class WindowState:
    """What one window shows.

    Attributes:
        path: The checkpoint; absolute.
        page: Name of the page.
        mode: How the keys are shown without a filter, if the user has chosen that: `tree`, `flat` or `families`.
        filter: What stands in the filter box.
        select: Key of the selected tensor.
        against: What it is compared with.
        config: The config file that it was opened with.
        plan: The edited fix plan, as its file would be; empty where nobody edited it.
    """

    path: str
    page: str = ""
    mode: str = ""
    filter: str = ""
    select: str = ""
    against: str = ""
    config: str = ""
    plan: str = ""


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


def write_states(states: Sequence[WindowState]) -> str:
    """Return states as JSON; empty for none."""
    return json.dumps({"version": VERSION, "windows": [asdict(state) for state in states]}) if states else ""


def read_states(text: str) -> tuple[WindowState, ...]:
    """Return the states that JSON holds; nothing where it is not ours, or of another version."""
    try:
        found: Any = json.loads(text) if text else {}
    except ValueError:
        return ()
    if not isinstance(found, dict) or found.get("version") != VERSION:
        return ()
    names = [field.name for field in fields(WindowState)]
    states = []
    for each in found.get("windows", ()):
        values = {name: each[name] for name in names if isinstance(each, dict) and isinstance(each.get(name), str)}
        if values.get("path"):
            states.append(WindowState(**values))
    return tuple(states)


def session_words(states: Sequence[WindowState]) -> str:
    """Return how many checkpoints a session had, and their names.

    >>> session_words([WindowState("/m/a.pt"), WindowState("/m/b.pt")])
    '2 checkpoints: a.pt, b.pt'
    """
    names = ", ".join(safe_text(os.path.basename(os.path.normpath(state.path)), 40) for state in states[:4])
    return f"{plural(len(states), 'checkpoint')}: {names}" + (", …" if states[4:] else "")


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
