"""Colours, fonts and the words for states: the one place where they are chosen.

Widgets ask for roles (`text`, `muted`, `state.missing`) and never name a colour. The look is Fusion with an own palette
and a short style sheet, the same on every system, light or dark as the system says or the user chose. The platform is
told of the choice too, so that its window frames follow; some platforms (offscreen among them) ignore that, which is
why the palette is always ours and never read back from theirs.
"""

from __future__ import annotations

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QColor, QFont, QFontDatabase, QGuiApplication, QPalette
from PySide6.QtWidgets import QApplication

from ckpt_gui.gui.looks import SCHEME_COLOURS, SEVERITY_STYLES, STATE_STYLES, StateStyle
from ckpt_gui.gui.style_sheet import style_sheet

SCHEMES = ("system", "light", "dark")


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
        self._app.setStyleSheet(style_sheet(values))
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
