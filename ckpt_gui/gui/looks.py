"""What every role of the theme looks like, as tables: colours, and the glyphs and words of states and severities."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ckpt_gui.dataclasses import dataclass
from ckpt_gui.gui.language import mark

_LIGHT = {
    "window": "#f4f6f9", "surface": "#ffffff", "raised": "#eef1f5", "border": "#d8dee6", "strong_border": "#808b98",
    "text": "#1a1f26", "muted": "#535d69", "accent": "#1f5fbf", "on_accent": "#ffffff", "accent_hover": "#184f9f",
    "selection": "#d9e7fb", "hover": "#eef3fa", "focus": "#1f5fbf",
    "blue": "#1458a8", "orange": "#8f4200", "teal": "#00615a", "violet": "#6434a3", "red": "#a8071a", "grey": "#535d69",
    "error_ground": "#fff1a8", "zebra": "#f8fafc", "disabled": "#656e7a",
}  # fmt: skip
_DARK = {
    "window": "#14171b", "surface": "#1b1f24", "raised": "#262b32", "border": "#343b44", "strong_border": "#7d8894",
    "text": "#e7eaee", "muted": "#a5afba", "accent": "#7fb4ff", "on_accent": "#0c1a2c", "accent_hover": "#a3caff",
    "selection": "#27405f", "hover": "#232931", "focus": "#7fb4ff",
    "blue": "#8ec2ff", "orange": "#ffb877", "teal": "#6fd8c6", "violet": "#d0b3ff", "red": "#ffa3a6", "grey": "#a5afba",
    "error_ground": "#4a2326", "zebra": "#1e2228", "disabled": "#929da9",
}  # fmt: skip
_CONTRAST = {
    "window": "#000000", "surface": "#000000", "raised": "#1c1c1c", "border": "#ffffff", "strong_border": "#ffffff",
    "text": "#ffffff", "muted": "#f0f0f0", "accent": "#ffe34d", "on_accent": "#000000", "accent_hover": "#fff3a8",
    "selection": "#0a3a86", "hover": "#262626", "focus": "#ffe34d",
    "blue": "#9bd0ff", "orange": "#ffc07a", "teal": "#6ff0da", "violet": "#e0c4ff", "red": "#ffb3b3", "grey": "#f0f0f0",
    "error_ground": "#5c0000", "zebra": "#0f0f0f", "disabled": "#a6a6a6",
}  # fmt: skip
SCHEME_COLOURS: Mapping[str, Mapping[str, str]] = MappingProxyType({
    "light": _LIGHT, "dark": _DARK, "contrast": _CONTRAST,
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class StateStyle:
    """How a state is shown: never by its colour alone.

    Attributes:
        name: The state's name in the core.
        glyph: One character.
        word: Its name for people.
        colour: Colour role.
        meaning: A sentence for the legend.
        bold: Whether keys in this state are bold.
        italic: Whether they are italic.
        strike: Whether they are struck through.
    """

    name: str
    glyph: str
    word: str
    colour: str
    meaning: str
    bold: bool = False
    italic: bool = False
    strike: bool = False


STATE_STYLES: Mapping[str, StateStyle] = MappingProxyType({
    s.name: s
    for s in (
        StateStyle("error", "!", mark("error"), "red", "It cannot be read.", bold=True),
        StateStyle("missing", "−", mark("missing"), "orange", "Expected, and not in the file.", strike=True),
        StateStyle("shape", "≠", mark("shape"), "orange", "The shape is not the expected one.", bold=True),
        StateStyle("extra", "+", mark("extra"), "teal", "In the file, and not expected.", bold=True),
        StateStyle("differs", "≉", mark("differs"), "orange",
                   "Its values are not those of its partner or of the reference.", bold=True),
        StateStyle("transform", "⟲", mark("transform"), "violet", "Its values change: rotary rows move.", bold=True),
        StateStyle("renamed", "↦", mark("renamed"), "blue", "The same tensor under another name."),
        StateStyle("tied", "⚭", mark("tied"), "text", "One half of a tied pair: equal to the embedding."),
        StateStyle("dtype", "~", mark("dtype"), "text", "Another element type than expected.", italic=True),
        StateStyle("same", "=", mark("same"), "text", "Name, shape and type as expected."),
        StateStyle("aside", "○", mark("aside"), "grey", "Not a weight: optimizer state, or another part of the file."),
        StateStyle("listed", "·", mark("listed"), "grey", "In the file, and not compared with anything yet."),
    )
})  # fmt: skip

# severity → glyph, word, colour role
SEVERITY_STYLES: Mapping[str, tuple[str, str, str]] = MappingProxyType({
    "error": ("✗", "Error", "red"),
    "warning": ("⚠", "Warning", "orange"),
    "info": ("ℹ", "Note", "blue"),
    "ok": ("✓", "Passed", "teal"),
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class BatchStyle:
    """How a state of a row is shown: never by its colour alone.

    Attributes:
        glyph: One character.
        word: Its name for people.
        colour: Colour role.
    """

    glyph: str
    word: str
    colour: str


# In the order of the summary.
BATCH_STYLES: Mapping[str, BatchStyle] = MappingProxyType({
    "written": BatchStyle("✔", "written", "teal"),
    "writing": BatchStyle("▸", "writing", "blue"),
    "queued": BatchStyle("…", "waits to be written", "blue"),
    "certain": BatchStyle("⟲", "certain fix", "blue"),
    "clean": BatchStyle("✓", "clean", "teal"),
    "decision": BatchStyle("?", "needs a decision", "orange"),
    "error": BatchStyle("✗", "unreadable", "red"),
    "failed": BatchStyle("✗", "not written", "red"),
    "stopped": BatchStyle("■", "stopped", "grey"),
    "looking": BatchStyle("○", "being looked at", "grey"),
    "waiting": BatchStyle("○", "waits", "grey"),
})  # fmt: skip
