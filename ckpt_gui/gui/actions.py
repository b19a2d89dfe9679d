"""Every action of the window as data: its name, text, shortcuts, what it calls, and where it stands in the menus.

A new action is one line here and one method of `Commands`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from PySide6.QtCore import QCoreApplication, QObject
from PySide6.QtGui import QAction, QActionGroup, QKeySequence
from PySide6.QtWidgets import QMainWindow, QMenu

_Key = QKeySequence.StandardKey


@dataclass(frozen=True, slots=True)
class Spec:
    """An action.

    Attributes:
        id: Stable name.
        text: What the menu says; `&` marks the mnemonic.
        handler: Method of the commands that is called.
        keys: Shortcuts, as text or as Qt's name for the platform's usual one.
        argument: Handed to the method if not None.
        group: Actions of one group exclude each other.
        needs: When it makes sense: `open` while a checkpoint is open, `model` or `adapter` while it is one, `path`
            while one is named, `fixable` while nothing blocks its export; empty for always.
        tip: What the status bar and tool tips say.
    """

    id: str
    text: str
    handler: str
    keys: tuple[str | QKeySequence.StandardKey, ...] = ()
    argument: str | None = None
    group: str = ""
    needs: str = ""
    tip: str = ""


ACTIONS: tuple[Spec, ...] = (
    Spec("open-file", "&Open file…", "open_file", (_Key.Open,), tip="Open a checkpoint file or an index"),
    Spec("open-folder", "Open &folder…", "open_folder", ("Ctrl+Shift+O",), tip="Open a folder of shards"),
    Spec("open-sample", "Open the &sample", "open_sample", tip="Open the small checkpoint that comes with the program"),
    Spec("reload", "&Read again", "reload", ("F5",), needs="path", tip="Open the same path anew"),
    Spec(
        "choose-config", "Choose a c&onfig…", "choose_config", needs="path", tip="Open it with a config.json of yours"
    ),
    Spec("close", "&Close checkpoint", "close_checkpoint", (_Key.Close,), needs="path"),
    Spec("quit", "&Quit", "close", ("Ctrl+Q",)),
    Spec(
        "copy-key", "Copy &key", "copy_keys", ("Ctrl+Shift+C",), needs="open", tip="Copy the keys of the selected rows"
    ),
    Spec("copy-rows", "&Copy rows", "copy_rows", (_Key.Copy,), needs="open", tip="Copy the selected rows as a table"),
    Spec(
        "drop",
        "&Leave out or take in",
        "toggle_dropped",
        (_Key.Delete,),
        needs="open",
        tip="Leave the selected extra tensors out of the export, or take them in again",
    ),
    Spec("find", "&Filter", "focus_filter", (_Key.Find, "/"), needs="open"),
    Spec("next", "&Next difference", "next_difference", ("Alt+Down", "F8"), needs="open"),
    Spec("previous", "&Previous difference", "previous_difference", ("Alt+Up", "Shift+F8"), needs="open"),
    Spec("tree", "As a &tree", "show_as", ("Ctrl+1",), argument="tree", needs="open"),
    Spec("list", "As a &list", "show_as", ("Ctrl+2",), argument="list", needs="open"),
    Spec("theme-system", "As the &system", "set_scheme", argument="system", group="theme"),
    Spec("theme-light", "&Light", "set_scheme", argument="light", group="theme"),
    Spec("theme-dark", "&Dark", "set_scheme", argument="dark", group="theme"),
    Spec("fix", "&Fix…", "fix", ("F7",), needs="fixable", tip="See what would be changed, and write it"),
    Spec(
        "merge-adapter",
        "Merge an &adapter…",
        "merge_adapter",
        needs="model",
        tip="Merge a LoRA adapter into this model",
    ),
    Spec(
        "merge-into", "Merge into a &base…", "merge_into", needs="adapter", tip="Open the model that it was trained on"
    ),
    Spec(
        "assigned-only",
        "Use only what the &index assigns",
        "use_assigned_only",
        needs="model",
        tip="Take each tensor from the shard that the index names, and leave out what it does not",
    ),
    Spec("export", "&Export…", "export", ("Ctrl+E",), needs="open", tip="Write the checkpoint in another form"),
    Spec("legend", "&Legend of glyphs", "show_legend", ("Shift+F1",)),
    Spec(
        "explain",
        "&Explain an error…",
        "explain_error",
        ("Ctrl+Shift+H",),
        tip="Paste a traceback, and see what is the matter and what to do",
    ),
    Spec("about", "&About ckpt_gui", "show_about"),
)

# `-` is a line; a name in capitals is filled in by the window.
MENUS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "&File",
        ("open-file", "open-folder", "RECENTS", "open-sample", "-", "reload", "choose-config", "close", "-", "quit"),
    ),
    ("&Edit", ("UNDO", "-", "copy-rows", "copy-key", "-", "drop", "-", "find")),
    ("&View", ("next", "previous", "-", "tree", "list", "-", "PAGES", "DOCKS", "-", "THEME")),
    ("F&ix", ("fix", "export", "-", "merge-adapter", "merge-into", "-", "assigned-only")),
    ("&Help", ("explain", "legend", "about")),
)
THEMES = ("theme-system", "theme-light", "theme-dark")


def make_actions(window: QMainWindow, commands: QObject) -> dict[str, QAction]:
    """Return the window's actions by name."""
    groups: dict[str, QActionGroup] = {}
    made: dict[str, QAction] = {}
    for spec in ACTIONS:
        action = QAction(_tr(spec.text), window)
        action.setObjectName(spec.id)
        action.setShortcuts([QKeySequence(key) for key in spec.keys])
        tip = _tr(spec.tip) if spec.tip else spec.text.replace("&", "")
        shown = action.shortcut().toString(QKeySequence.SequenceFormat.NativeText)
        action.setToolTip(f"{tip} ({shown})" if shown else tip)
        action.setStatusTip(tip)
        handler = getattr(commands, spec.handler)
        call = handler if spec.argument is None else partial(handler, spec.argument)
        action.triggered.connect(lambda _checked=False, call=call: call())
        if spec.group:
            action.setCheckable(True)
            groups.setdefault(spec.group, QActionGroup(window)).addAction(action)
        window.addAction(action)
        made[spec.id] = action
    return made


def make_menus(window: QMainWindow, actions: Mapping[str, QAction]) -> dict[str, QMenu]:
    """Build the menu bar; return the places that the window fills, by their names in capitals."""
    places: dict[str, QMenu] = {}
    for title, names in MENUS:
        menu = window.menuBar().addMenu(_tr(title))
        for name in names:
            if name == "-":
                menu.addSeparator()
            elif name == "THEME":
                menu.addMenu(_tr("&Colours")).addActions([actions[theme] for theme in THEMES])
            elif name == "RECENTS":
                places[name] = menu.addMenu(_tr("Open &recent"))
            elif name.isupper():
                places[name] = menu
                menu.addSeparator().setObjectName(name)
            else:
                menu.addAction(actions[name])
    return places


def fill_place(menu: QMenu, name: str, actions: list[QAction]) -> None:
    """Put actions where a name in capitals stands."""
    mark = next(action for action in menu.actions() if action.objectName() == name)
    menu.insertActions(mark, actions)
    menu.removeAction(mark)


def enable(actions: Mapping[str, QAction], **now: bool) -> None:
    """Enable what makes sense now: a truth for every word that an action can need."""
    for spec in ACTIONS:
        if spec.needs:
            actions[spec.id].setEnabled(now[spec.needs])


def _tr(text: str) -> str:
    return QCoreApplication.translate("actions", text)
