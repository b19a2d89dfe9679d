"""Every action of the window as data: its name, text, shortcuts, what it calls, and where it stands in the menus.

A new action is one line here and one method of `Commands`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from PySide6.QtGui import QAction, QActionGroup, QKeySequence
from PySide6.QtWidgets import QMainWindow, QMenu

from ckpt_gui.dataclasses import dataclass
from ckpt_gui.gui.language import said

WHY = "why"  # property of an action: a sentence that says why it can not be used now
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
        needs: When it makes sense; see `NEEDS`. Empty for always.
        tip: What the status bar and tool tips say.
        checkable: Whether it is on or off; who says which is told by the session.
    """

    id: str
    text: str
    handler: str
    keys: tuple[str | QKeySequence.StandardKey, ...] = ()
    argument: str | None = None
    group: str = ""
    needs: str = ""
    tip: str = ""
    checkable: bool = False


# word → why an action that needs it can not be used now
NEEDS: dict[str, str] = {
    "open": "Open a checkpoint first",
    "path": "Open a checkpoint first",
    "model": "Only while a model is open",
    "adapter": "Only while an adapter is open",
    "fixable": "Only while a checkpoint is open of which nothing blocks the export",
    "before": "No session was kept",
}

ACTIONS: tuple[Spec, ...] = (
    Spec("open-file", "&Open file…", "open_file", (_Key.Open,), tip="Open a checkpoint file or an index"),
    Spec("open-folder", "Open &folder…", "open_folder", ("Ctrl+Shift+O",), tip="Open a folder of shards"),
    Spec(
        "open-location",
        "Open &location…",
        "open_location",
        ("Ctrl+Shift+L",),
        tip="Open a checkpoint on a server by its address: hf://, https://, s3://, gs://, ssh://",
    ),
    Spec(
        "open-several",
        "Open se&veral…",
        "open_several",
        ("Ctrl+Alt+O",),
        tip="Look at many checkpoints at once, and fix all that are certain",
    ),
    Spec(
        "new-window",
        "New &window",
        "new_window",
        ("Ctrl+Shift+N",),
        tip="Open the same checkpoint in another window, or the start page if nothing is open",
    ),
    Spec("open-sample", "Open the &sample", "open_sample", tip="Open the small checkpoint that comes with the program"),
    Spec(
        "restore-session",
        "Reopen last sess&ion",
        "restore_session",
        needs="before",
        tip="Open again what was open when the program ended last, as it was shown",
    ),
    Spec("reload", "Rea&d again", "reload", ("F5",), needs="path", tip="Open the same path anew"),
    Spec(
        "choose-config", "Choose a confi&g…", "choose_config", needs="path", tip="Open it with a config.json of yours"
    ),
    Spec(
        "close", "&Close checkpoint", "close_checkpoint", (_Key.Close,), needs="path", tip="Go back to the start page"
    ),
    Spec("quit", "&Quit", "close", ("Ctrl+Q",), tip="Close the window; running work is asked about"),
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
    Spec(
        "copy-view",
        "Copy the command for this &view",
        "copy_view",
        ("Ctrl+Alt+C",),
        needs="open",
        tip="Copy the command that opens this checkpoint with the same filter, tensor and page",
    ),
    Spec("settings", "&Settings…", "show_settings", ("Ctrl+,",), tip="Colours, letters, numbers, and what is kept"),
    Spec(
        "findings",
        "&Go to the findings",
        "show_findings",
        ("Ctrl+Shift+F",),
        needs="open",
        tip="What the checkpoint is, and what is wrong with it",
    ),
    Spec(
        "find",
        "&Filter",
        "focus_filter",
        (_Key.Find, "/"),
        needs="open",
        tip="Show only the tensors that a text asks for",
    ),
    Spec(
        "next",
        "&Next difference",
        "next_difference",
        ("Alt+Down", "F8"),
        needs="open",
        tip="Go to the next tensor that is not as expected",
    ),
    Spec(
        "previous",
        "&Previous difference",
        "previous_difference",
        ("Alt+Up", "Shift+F8"),
        needs="open",
        tip="Go to the previous tensor that is not as expected",
    ),
    Spec(
        "expand",
        "&Unfold the selection",
        "unfold_selection",
        ("Ctrl++", "Ctrl+="),
        needs="open",
        tip="Unfold the selected groups and all in them; asks above 5,000 rows",
    ),
    Spec(
        "collapse",
        "F&old the selection",
        "fold_selection",
        ("Ctrl+-",),
        needs="open",
        tip="Fold the selected groups, or the group of the selected tensor",
    ),
    Spec(
        "check-values",
        "&Check all values",
        "check_values",
        ("Shift+F5",),
        needs="open",
        tip="Read every weight: finds NaN, dead rows and what looks wrong beside the other layers",
    ),
    Spec(
        "tree",
        "As a &tree",
        "show_as",
        ("Ctrl+1",),
        argument="tree",
        needs="open",
        tip="Group the tensors by their names",
    ),
    Spec("list", "As a flat &list", "show_as", ("Ctrl+2",), argument="flat", needs="open", tip="One row a tensor"),
    Spec(
        "families",
        "As &families",
        "show_as",
        ("Ctrl+3",),
        argument="families",
        needs="open",
        tip="One row for all tensors whose names differ in numbers only",
    ),
    Spec(
        "theme-system",
        "As the &system",
        "set_scheme",
        argument="system",
        group="theme",
        tip="Follow the colours and the contrast of the desktop",
    ),
    Spec("theme-light", "&Light", "set_scheme", argument="light", group="theme", tip="Dark letters on light ground"),
    Spec("theme-dark", "&Dark", "set_scheme", argument="dark", group="theme", tip="Light letters on dark ground"),
    Spec(
        "theme-contrast",
        "&High contrast",
        "set_scheme",
        argument="contrast",
        group="theme",
        tip="Black, white and strong colours, with frames around everything",
    ),
    Spec("fix", "&Fix…", "fix", needs="fixable", tip="See what would be changed, and write it"),
    Spec("plan-all", "&Plan for all", "plan_for_all", ("F7",), needs="open", tip="Show every step of the fix plan"),
    Spec(
        "plan-selection",
        "Plan for the &selection",
        "plan_for_selection",
        ("F6",),
        needs="open",
        tip="Show only the steps of the fix plan that concern the selected tensors",
    ),
    Spec("rename", "&Rename a key…", "rename_key", ("F2",), needs="open", tip="Give the selected key another name"),
    Spec(
        "map",
        "&Map to expected…",
        "map_to_expected",
        ("Ctrl+M",),
        needs="open",
        tip="Say which expected tensor the selected one is",
    ),
    Spec(
        "rule",
        "Rename b&y an expression…",
        "add_rule",
        ("Ctrl+Shift+F2",),
        needs="open",
        tip="Rename many keys by a regular expression",
    ),
    Spec(
        "fields",
        "Metadata and confi&g…",
        "edit_fields",
        ("Ctrl+G",),
        needs="open",
        tip="Change fields of the config and the metadata of an export",
    ),
    Spec("save-plan", "Save pla&n…", "save_plan", ("Ctrl+S",), needs="open", tip="Save the fix plan as a file"),
    Spec("load-plan", "&Load plan…", "load_plan", ("Ctrl+L",), needs="open", tip="Take over a fix plan that was saved"),
    Spec(
        "preview",
        "Pre&view the plan",
        "toggle_preview",
        ("F9",),
        needs="open",
        tip="Show the tree as the plan would write it",
        checkable=True,
    ),
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
        "take-model",
        "&Take one of the models…",
        "take_model",
        needs="path",
        tip="Where a folder holds several models: open only the one that a file belongs to",
    ),
    Spec(
        "salvage",
        "Open what is &whole of a damaged file…",
        "open_salvage",
        tip="Open a file that is cut short or damaged for the tensors in it that are whole",
    ),
    Spec(
        "assigned-only",
        "Use only what the &index assigns",
        "use_assigned_only",
        needs="model",
        tip="Take each tensor from the shard that the index names, and leave out what it does not",
    ),
    Spec("export", "&Export…", "export", ("Ctrl+E",), needs="open", tip="Write the checkpoint in another form"),
    Spec(
        "fix-export",
        "Fix and e&xport at once…",
        "fix_and_export",
        ("Ctrl+Shift+E",),
        needs="open",
        tip="Where every step is certain: the summary, and Enter writes it; else what stands in the way",
    ),
    Spec(
        "palette",
        "Command &palette…",
        "show_palette",
        ("Ctrl+Shift+P",),
        tip="Find any command, or any key of the checkpoint, by a few letters",
    ),
    Spec("help", "&First steps", "show_help", (_Key.HelpContents,), tip="What is where, and how a checkpoint is fixed"),
    Spec("shortcuts", "&Keyboard shortcuts…", "show_shortcuts", tip="All shortcuts; each can be changed"),
    Spec("legend", "&Legend of glyphs", "show_legend", ("Shift+F1",), tip="What each mark of the tree means"),
    Spec(
        "explain",
        "&Explain an error…",
        "explain_error",
        ("Ctrl+Shift+H",),
        tip="Paste a traceback, and see what is the matter and what to do",
    ),
    Spec("about", "&About ckpt_gui", "show_about", tip="Version and licence"),
)

# `-` is a line; a name in capitals is filled in by the window.
MENUS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("&File", (
        "new-window", "open-file", "open-folder", "open-location", "open-several", "RECENTS", "restore-session",
        "open-sample", "-", "reload", "choose-config", "close", "-", "quit",
    )),
    ("&Edit", ("UNDO", "-", "copy-rows", "copy-key", "copy-view", "-", "drop", "-", "find", "-", "settings")),
    ("&View", (
        "next", "previous", "findings", "-", "tree", "list", "families", "expand", "collapse", "COLUMNS", "-", "PAGES",
        "DOCKS", "-", "THEME",
    )),
    ("F&ix", (
        "fix", "export", "fix-export", "-", "plan-all", "plan-selection", "preview", "-", "rename", "map", "rule",
        "fields", "-", "save-plan", "load-plan", "-", "check-values", "-",
        "merge-adapter", "merge-into", "-", "assigned-only", "take-model", "salvage",
    )),
    ("&Help", ("help", "palette", "explain", "-", "legend", "shortcuts", "about")),
)  # fmt: skip
_SUBMENUS = {"RECENTS": "Open &recent", "PAGES": "P&ages"}
THEMES = ("theme-system", "theme-light", "theme-dark", "theme-contrast")


def make_actions(
    window: QMainWindow, call: Callable[..., None], chosen: Mapping[str, Sequence[str]]
) -> dict[str, QAction]:
    """Return the window's actions by name.

    Args:
        window: Where they are.
        call: Calls a command by the name of its method, with the argument if there is one.
        chosen: Shortcuts of the user's: name → keys.
    """
    groups: dict[str, QActionGroup] = {}
    made: dict[str, QAction] = {}
    for spec in ACTIONS:
        action = QAction(said(spec.text), window)
        action.setObjectName(spec.id)
        action.setStatusTip(said(spec.tip))
        action.setProperty(WHY, said(NEEDS[spec.needs]) if spec.needs else "")
        words = (spec.handler,) if spec.argument is None else (spec.handler, spec.argument)
        action.triggered.connect(lambda _checked=False, words=words: call(*words))
        action.setCheckable(bool(spec.group) or spec.checkable)
        if spec.group:
            groups.setdefault(spec.group, QActionGroup(window)).addAction(action)
        window.addAction(action)
        made[spec.id] = action
    take_shortcuts(made, chosen)
    return made


def take_shortcuts(actions: Mapping[str, QAction], chosen: Mapping[str, Sequence[str]]) -> None:
    """Give the actions the shortcuts that the user has chosen, and the usual ones where nothing was."""
    for spec in ACTIONS:
        keys = chosen.get(spec.id)
        give_keys(actions[spec.id], _keys(spec) if keys is None else read_keys(keys))


def read_keys(texts: Iterable[str]) -> list[QKeySequence]:
    """Return the shortcuts that are written in the settings."""
    return [QKeySequence(text, QKeySequence.SequenceFormat.PortableText) for text in texts]


def usual_keys(name: str) -> list[QKeySequence]:
    """Return the shortcuts that an action has as delivered; on each platform its own."""
    return next((_keys(spec) for spec in ACTIONS if spec.id == name), [])


def _keys(spec: Spec) -> list[QKeySequence]:
    return [QKeySequence(key) for key in spec.keys]


def give_keys(action: QAction, keys: Sequence[QKeySequence]) -> None:
    """Give an action its shortcuts, and say them in its tool tip."""
    action.setShortcuts(list(keys))
    shown = action.shortcut().toString(QKeySequence.SequenceFormat.NativeText)
    tip = action.statusTip()
    action.setToolTip(f"{tip} ({shown})" if shown else tip)


def make_menus(window: QMainWindow, actions: Mapping[str, QAction]) -> dict[str, QMenu]:
    """Build the menu bar; return the places that the window fills, by their names in capitals."""
    places: dict[str, QMenu] = {}
    for title, names in MENUS:
        menu = window.menuBar().addMenu(said(title))
        for name in names:
            if name == "-":
                menu.addSeparator()
            elif name == "THEME":
                menu.addMenu(said("Colou&rs")).addActions([actions[theme] for theme in THEMES])
            elif name in _SUBMENUS:
                places[name] = menu.addMenu(said(_SUBMENUS[name]))
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
