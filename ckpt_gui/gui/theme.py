"""Colours, fonts and the words for states: the one place where they are chosen.

Widgets ask for roles (`text`, `muted`, `state.missing`) and never name a colour. The look is Fusion with an own palette
and a short style sheet, the same on every system, light or dark as the system says or the user chose. The platform is
told of the choice too, so that its window frames follow; some platforms (offscreen among them) ignore that, which is
why the palette is always ours and never read back from theirs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QColor, QFont, QFontDatabase, QGuiApplication, QPalette
from PySide6.QtWidgets import QApplication

from ckpt_gui.gui.resources import resource

SCHEMES = ("system", "light", "dark")

_LIGHT = {
    "window": "#f4f6f9", "surface": "#ffffff", "raised": "#eef1f5", "border": "#d8dee6", "strong_border": "#808b98",
    "text": "#1a1f26", "muted": "#535d69", "accent": "#1f5fbf", "on_accent": "#ffffff", "accent_hover": "#184f9f",
    "selection": "#d9e7fb", "hover": "#eef3fa", "focus": "#1f5fbf",
    "blue": "#1458a8", "orange": "#8f4200", "teal": "#00615a", "violet": "#6434a3", "red": "#a8071a", "grey": "#535d69",
    "error_ground": "#fff1a8", "zebra": "#f8fafc",
}  # fmt: skip
_DARK = {
    "window": "#14171b", "surface": "#1b1f24", "raised": "#262b32", "border": "#343b44", "strong_border": "#7d8894",
    "text": "#e7eaee", "muted": "#a5afba", "accent": "#7fb4ff", "on_accent": "#0c1a2c", "accent_hover": "#a3caff",
    "selection": "#27405f", "hover": "#232931", "focus": "#7fb4ff",
    "blue": "#8ec2ff", "orange": "#ffb877", "teal": "#6fd8c6", "violet": "#d0b3ff", "red": "#ffa3a6", "grey": "#a5afba",
    "error_ground": "#4a2326", "zebra": "#1e2228",
}  # fmt: skip
SCHEME_COLOURS: Mapping[str, Mapping[str, str]] = MappingProxyType({"light": _LIGHT, "dark": _DARK})


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
        StateStyle("error", "!", "error", "red", "It cannot be read.", bold=True),
        StateStyle("missing", "−", "missing", "orange", "Expected, and not in the file.", strike=True),
        StateStyle("shape", "≠", "shape", "orange", "The shape is not the expected one.", bold=True),
        StateStyle("extra", "+", "extra", "teal", "In the file, and not expected.", bold=True),
        StateStyle("transform", "⟲", "transform", "violet", "Its values change: rotary rows move.", bold=True),
        StateStyle("renamed", "↦", "renamed", "blue", "The same tensor under another name."),
        StateStyle("tied", "⚭", "tied", "text", "One half of a tied pair: equal to the embedding."),
        StateStyle("dtype", "~", "dtype", "text", "Another element type than expected.", italic=True),
        StateStyle("same", "=", "same", "text", "Name, shape and type as expected."),
        StateStyle("aside", "○", "aside", "grey", "Not a weight: optimizer state, or another part of the file."),
    )
})  # fmt: skip

# severity → glyph, word, colour role
SEVERITY_STYLES: Mapping[str, tuple[str, str, str]] = MappingProxyType({
    "error": ("✗", "Error", "red"),
    "warning": ("⚠", "Warning", "orange"),
    "info": ("ℹ", "Note", "blue"),
    "ok": ("✓", "Passed", "teal"),
})  # fmt: skip


class Theme(QObject):
    """Chooses light or dark, and says what every role looks like.

    Signals:
        changed(): Colours or fonts are others now; repaint.
    """

    changed = Signal()

    def __init__(self, app: QApplication, scheme: str = "system", parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._app = app
        self._scheme = scheme if scheme in SCHEMES else "system"
        self._colours: dict[str, QColor] = {}
        self._dark = False
        app.setStyle("Fusion")
        QGuiApplication.styleHints().colorSchemeChanged.connect(self._on_system_change)
        self._apply()

    @property
    def scheme(self) -> str:
        """What the user chose: `system`, `light` or `dark`."""
        return self._scheme

    @property
    def dark(self) -> bool:
        """Whether the colours are the dark ones now."""
        return self._dark

    def set_scheme(self, scheme: str) -> None:
        """Choose `system`, `light` or `dark`."""
        if scheme in SCHEMES and scheme != self._scheme:
            self._scheme = scheme
            self._apply()

    def color(self, role: str) -> QColor:
        """Return a role's colour; `state.NAME` and `severity.NAME` are roles too."""
        kind, _, name = role.partition(".")
        if kind == "state":
            role = STATE_STYLES[name].colour
        elif kind == "severity":
            role = SEVERITY_STYLES[name][2]
        return self._colours[role]

    def tint(self, role: str, share: float = 0.12, ground: str = "surface") -> QColor:
        """Return a ground colour with a little of a role's colour in it."""
        top, base = self.color(role), self.color(ground)
        mix = (round(a * share + b * (1 - share)) for a, b in zip(_rgb(top), _rgb(base), strict=True))
        return QColor(*mix)

    def state(self, name: str) -> StateStyle:
        """Return how a state of the diff is shown."""
        return STATE_STYLES[name]

    def fixed_font(self) -> QFont:
        """Return the font of keys and values."""
        font = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont)
        font.setPointSizeF(max(6.0, self._app.font().pointSizeF() * 0.95))
        return font

    def state_font(self, name: str) -> QFont:
        """Return the font of a key in a state."""
        style, font = STATE_STYLES[name], self.fixed_font()
        font.setBold(style.bold)
        font.setItalic(style.italic)
        font.setStrikeOut(style.strike)
        return font

    def _on_system_change(self, _scheme: Qt.ColorScheme) -> None:
        if self._scheme == "system":
            self._apply()

    def _apply(self) -> None:
        hints = QGuiApplication.styleHints()
        wanted = {"light": Qt.ColorScheme.Light, "dark": Qt.ColorScheme.Dark}.get(self._scheme)
        hints.blockSignals(True)  # the platform tells us of our own change too
        hints.unsetColorScheme() if wanted is None else hints.setColorScheme(wanted)
        hints.blockSignals(False)
        self._dark = (wanted or hints.colorScheme()) == Qt.ColorScheme.Dark
        values = SCHEME_COLOURS["dark" if self._dark else "light"]
        self._colours = {role: QColor(value) for role, value in values.items()}
        self._app.setPalette(self._palette())
        self._app.setStyleSheet(_style_sheet(values))
        self.changed.emit()

    def _palette(self) -> QPalette:
        roles = QPalette.ColorRole
        pairs = {
            roles.Window: "window", roles.WindowText: "text", roles.Base: "surface", roles.AlternateBase: "zebra",
            roles.Text: "text", roles.Button: "raised", roles.ButtonText: "text", roles.ToolTipBase: "raised",
            roles.ToolTipText: "text", roles.PlaceholderText: "muted", roles.Highlight: "selection",
            roles.HighlightedText: "text", roles.Link: "accent", roles.LinkVisited: "violet", roles.Accent: "accent",
            roles.Light: "surface", roles.Midlight: "raised", roles.Mid: "border", roles.Dark: "strong_border",
            roles.Shadow: "strong_border", roles.BrightText: "red",
        }  # fmt: skip
        palette = QPalette()
        for role, name in pairs.items():
            palette.setColor(role, self._colours[name])
        for role in (roles.WindowText, roles.Text, roles.ButtonText, roles.HighlightedText):
            palette.setColor(QPalette.ColorGroup.Disabled, role, self.tint("muted", 0.62, "window"))
        return palette


def contrast(front: QColor, ground: QColor) -> float:
    """Return the contrast ratio of two colours as WCAG 2 defines it, from 1 to 21."""
    lighter, darker = sorted((_luminance(front), _luminance(ground)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def _rgb(colour: QColor) -> tuple[int, int, int]:
    return colour.red(), colour.green(), colour.blue()


def _luminance(colour: QColor) -> float:
    parts = [c / 255 for c in _rgb(colour)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _style_sheet(colours: Mapping[str, str]) -> str:
    sheet = _SHEET
    for name in ("chevron-down", "chevron-up"):
        sheet = sheet.replace(f"%{name}", resource(f"icons/{name}.svg").as_posix())
    for role in sorted(colours, key=len, reverse=True):
        sheet = sheet.replace(f"@{role}", colours[role])
    return sheet


# Properties that widgets set: card, title, kind="primary|quiet|chip", tone="muted".
_SHEET = """
QMainWindow, QDialog { background: @window; }
QMainWindow::separator { background: @window; width: 6px; height: 6px; }
QMainWindow::separator:hover { background: @border; }
QFrame[card="true"] { background: @surface; border: 1px solid @border; border-radius: 8px; }
QLabel { background: transparent; }
QLabel[tone="muted"] { color: @muted; }
QScrollArea, QScrollArea > QWidget > QWidget[plain="true"] { background: transparent; border: none; }
QToolTip { background: @surface; color: @text; border: 1px solid @strong_border; padding: 4px; }

QMenuBar { background: @window; padding: 2px 8px; }
QMenuBar::item { padding: 4px 8px; border-radius: 4px; background: transparent; }
QMenuBar::item:selected { background: @raised; }
QMenu { background: @surface; border: 1px solid @border; padding: 4px; }
QMenu::item { padding: 5px 28px 5px 24px; border-radius: 4px; }
QMenu::item:selected { background: @selection; color: @text; }
QMenu::item:disabled { color: @strong_border; }
QMenu::separator { height: 1px; background: @border; margin: 4px 8px; }

QToolBar { background: @window; border: none; border-bottom: 1px solid @border; padding: 6px 12px; spacing: 8px; }
QToolBar::separator { background: @border; width: 1px; margin: 4px; }

QPushButton, QToolButton { background: @surface; border: 1px solid @border; border-radius: 6px; padding: 5px 12px;
  color: @text; }
QPushButton:hover, QToolButton:hover { background: @hover; border-color: @strong_border; }
QPushButton:pressed, QToolButton:pressed { background: @selection; }
QPushButton:focus, QToolButton:focus { border: 2px solid @focus; padding: 4px 11px; }
QPushButton:disabled, QToolButton:disabled { color: @strong_border; background: @window; border-color: @border; }
QPushButton[kind="primary"], QToolButton[kind="primary"] { background: @accent; border-color: @accent;
  color: @on_accent; font-weight: 600; }
QPushButton[kind="primary"]:hover, QToolButton[kind="primary"]:hover { background: @accent_hover; }
QPushButton[kind="primary"]:focus, QToolButton[kind="primary"]:focus { border: 2px solid @text; }
QPushButton[kind="primary"]:disabled, QToolButton[kind="primary"]:disabled { background: @raised;
  border-color: @border; color: @strong_border; }
QPushButton[kind="quiet"], QToolButton[kind="quiet"] { background: transparent; border: 2px solid transparent;
  padding: 3px 8px; }
QPushButton[kind="quiet"]:hover, QToolButton[kind="quiet"]:hover { background: @hover; }
QPushButton[kind="quiet"]:focus, QToolButton[kind="quiet"]:focus { border-color: @focus; }
QToolButton::menu-indicator { image: none; width: 0; }
QToolButton[popupMode="1"] { padding-right: 30px; }
QToolButton::menu-button { border: none; border-left: 1px solid @border; width: 20px; margin: 5px 0; }
QToolButton::menu-arrow, QComboBox::down-arrow { image: url("%chevron-down"); width: 12px; height: 12px; }
QComboBox::drop-down { border: none; width: 24px; }
QSpinBox::up-button, QSpinBox::down-button { border: none; width: 20px; background: transparent; }
QSpinBox::up-arrow { image: url("%chevron-up"); width: 10px; height: 10px; }
QSpinBox::down-arrow { image: url("%chevron-down"); width: 10px; height: 10px; }
QAbstractScrollArea::corner { background: transparent; border: none; }
QToolButton[kind="segment"] { border-radius: 0; padding: 4px 10px; }
QToolButton[kind="segment"]:checked { background: @selection; border-color: @accent; }

QLineEdit, QComboBox, QSpinBox, QDoubleSpinBox, QPlainTextEdit, QTextEdit { background: @surface;
  border: 1px solid @border; border-radius: 6px; padding: 5px 8px; selection-background-color: @selection;
  selection-color: @text; }
QLineEdit:hover, QComboBox:hover, QSpinBox:hover { border-color: @strong_border; }
QLineEdit:focus, QComboBox:focus, QSpinBox:focus, QDoubleSpinBox:focus, QPlainTextEdit:focus, QTextEdit:focus {
  border: 2px solid @focus; padding: 4px 7px; }
QComboBox { padding-right: 22px; }
QSpinBox QLineEdit { border: none; padding: 0 6px; background: transparent; }
QComboBox:disabled, QLineEdit:disabled { color: @strong_border; background: @window; }
QComboBox QAbstractItemView { background: @surface; border: 1px solid @border; selection-background-color: @selection;
  selection-color: @text; outline: none; }

QTreeView, QTableView, QListView, QTableWidget, QTreeWidget { background: @surface;
  alternate-background-color: @zebra; border: 1px solid @border; border-radius: 8px; outline: none; }
QTreeView:focus, QTableView:focus, QListView:focus { border-color: @focus; }
QTreeView::item { padding: 3px 4px; border: none; }
QTreeView::item:hover { background: @hover; }
QTreeView::item:selected { background: @selection; color: @text; }
QTreeView::branch:selected { background: @selection; }
QTreeView::branch:hover { background: @hover; }
QHeaderView { background: transparent; border: none; }
QHeaderView::section { background: @surface; color: @muted; border: none; border-bottom: 1px solid @border;
  padding: 6px 6px; font-weight: 600; }

QTabWidget::pane { border: 1px solid @border; border-radius: 8px; background: @surface; top: -1px; }
QTabBar::tab { background: transparent; color: @muted; padding: 6px 12px; border: none;
  border-bottom: 2px solid transparent; }
QTabBar::tab:selected { color: @text; border-bottom-color: @accent; }
QTabBar::tab:hover { color: @text; }
QTabBar::tab:focus { border-bottom-color: @focus; color: @text; }

QStatusBar { background: @window; border-top: 1px solid @border; }
QStatusBar::item { border: none; }
QProgressBar { background: @raised; border: none; border-radius: 4px; text-align: center; color: @text; }
QProgressBar::chunk { background: @accent; border-radius: 4px; }

QScrollBar:vertical { background: transparent; width: 12px; margin: 2px; }
QScrollBar:horizontal { background: transparent; height: 12px; margin: 2px; }
QScrollBar::handle { background: @border; border-radius: 4px; min-height: 28px; min-width: 28px; }
QScrollBar::handle:hover { background: @strong_border; }
QScrollBar::add-line, QScrollBar::sub-line { width: 0; height: 0; }
QScrollBar::add-page, QScrollBar::sub-page { background: transparent; }
QSplitter::handle { background: transparent; }
"""
