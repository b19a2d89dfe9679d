"""Colours, fonts and the words for states: the one place where they are chosen.

Widgets ask for roles (`text`, `muted`, `state.missing`) and never name a colour. The look is Fusion with an own palette
and a short style sheet, the same on every system: light, dark or of high contrast as the system says or the user chose.
The platform is told of the choice too, so that its window frames follow; some platforms (offscreen among them) ignore
that, which is why the palette is always ours and never read back from theirs.
"""

from __future__ import annotations

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QColor, QFont, QFontDatabase, QGuiApplication, QPalette, QStyleHints
from PySide6.QtWidgets import QApplication, QMainWindow, QWidget

from ckpt_gui.gui.looks import SCHEME_COLOURS, SEVERITY_STYLES, STATE_STYLES, StateStyle
from ckpt_gui.gui.style_sheet import style_sheet

SCHEMES = ("system", "light", "dark", "contrast")
LEAST_POINTS, MOST_POINTS = 8, 24  # sizes of the letters that can be chosen
STILL = "still"  # property of the application: True where nothing may move by itself
_EFFECTS = (
    Qt.UIEffect.UI_AnimateMenu, Qt.UIEffect.UI_FadeMenu, Qt.UIEffect.UI_AnimateCombo, Qt.UIEffect.UI_AnimateTooltip,
    Qt.UIEffect.UI_FadeTooltip, Qt.UIEffect.UI_AnimateToolBox,
)  # fmt: skip


class Theme(QObject):
    """Chooses the colours and the size of the letters, and says what every role looks like.

    Args:
        app: The application.
        scheme: `system`, `light`, `dark` or `contrast`.
        points: Size of the letters; 0 for that of the system.
        still: True if nothing may move by itself.

    Signals:
        changed(): Colours or fonts are others now; repaint.
    """

    changed = Signal()

    def __init__(
        self,
        app: QApplication,
        scheme: str = "system",
        points: int = 0,
        still: bool = False,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._app = app
        self._scheme = scheme if scheme in SCHEMES else "system"
        self._colours: dict[str, QColor] = {}
        self._shown = "light"  # the scheme that `system` stands for now
        self._usual_font = QFont(app.font())
        self._usual_flash = QGuiApplication.styleHints().cursorFlashTime()
        self.points, self.still = 0, False
        app.setStyle("Fusion")
        self._follow_system()
        if points:
            self._set_letters(min(max(points, LEAST_POINTS), MOST_POINTS))
        if still:
            self.set_still(True)
        self._apply()

    @property
    def scheme(self) -> str:
        """What the user chose: `system`, `light`, `dark` or `contrast`."""
        return self._scheme

    @property
    def dark(self) -> bool:
        """Whether the colours are the dark ones now."""
        return self._shown != "light"

    @property
    def shown(self) -> str:
        """The colours that are seen now: `light`, `dark` or `contrast`."""
        return self._shown

    def set_scheme(self, scheme: str) -> None:
        """Choose `system`, `light`, `dark` or `contrast`."""
        if scheme in SCHEMES and scheme != self._scheme:
            self._scheme = scheme
            self._apply()

    def set_points(self, points: int) -> None:
        """Choose the size of the letters, 0 for that of the system; what is open follows at once."""
        points = min(max(points, LEAST_POINTS), MOST_POINTS) if points else 0
        if points == self.points:
            return
        before = self._app.font().pointSizeF()
        own = self._own_letters()
        self._set_letters(points)
        for _, font in own:
            font.setPointSizeF(font.pointSizeF() * self._app.font().pointSizeF() / before)
        self._apply(own)  # what the sheet has settled takes other letters only with a sheet that is set again

    def _own_letters(self) -> list[tuple[QWidget, QFont]]:
        """Return what has a font of its own, such as headings, and that font."""
        return [(it, it.font()) for it in self._app.allWidgets() if it.testAttribute(Qt.WidgetAttribute.WA_SetFont)]

    def _set_letters(self, points: int) -> None:
        font = QFont(self._usual_font)
        if points:
            font.setPointSize(points)
        self.points = points
        self._app.setFont(font)

    def set_still(self, still: bool) -> None:
        """Choose whether anything may move by itself: bars that wait, menus that fade, docks that glide, the cursor."""
        self.still = still
        self._app.setProperty(STILL, still)
        for effect in _EFFECTS:
            self._app.setEffectEnabled(effect, False)  # never: they say nothing
        QGuiApplication.styleHints().setCursorFlashTime(0 if still else self._usual_flash)
        for window in self._app.topLevelWidgets():
            self.settle(window)
        self._apply()

    def settle(self, window: QWidget) -> None:
        """Let the docks of a window move as was chosen."""
        if isinstance(window, QMainWindow):
            window.setAnimated(not self.still)

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

    def _follow_system(self) -> None:
        hints = QGuiApplication.styleHints()
        hints.colorSchemeChanged.connect(self._on_system_change)
        if hasattr(hints, "accessibility"):  # Qt 6.10
            hints.accessibility().contrastPreferenceChanged.connect(self._on_system_change)

    def _on_system_change(self, _preference: object) -> None:
        if self._scheme == "system":
            self._apply()

    def _apply(self, letters: list[tuple[QWidget, QFont]] | None = None) -> None:
        letters = self._own_letters() if letters is None else letters
        hints = QGuiApplication.styleHints()
        wanted = {"light": Qt.ColorScheme.Light, "dark": Qt.ColorScheme.Dark, "contrast": Qt.ColorScheme.Dark}
        scheme = wanted.get(self._scheme)
        hints.blockSignals(True)  # the platform tells us of our own change too
        hints.unsetColorScheme() if scheme is None else hints.setColorScheme(scheme)
        hints.blockSignals(False)
        self._shown = _system_scheme(hints) if scheme is None else self._scheme
        values = SCHEME_COLOURS[self._shown]
        self._colours = {role: QColor(value) for role, value in values.items()}
        self._app.setPalette(self._palette())
        self._app.setStyleSheet(style_sheet(values, still=self.still))
        for widget, font in letters:  # a new sheet gives back those that they had when they were first settled
            widget.setFont(font)
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
            palette.setColor(QPalette.ColorGroup.Disabled, role, self._colours["disabled"])
        return palette


def _system_scheme(hints: QStyleHints) -> str:
    """Return the colours that the desktop asks for; platforms that say nothing get the light ones."""
    if hasattr(hints, "accessibility"):  # Qt 6.10
        preference = hints.accessibility().contrastPreference()
        if preference == Qt.ContrastPreference.HighContrast:
            return "contrast"
    return "dark" if hints.colorScheme() == Qt.ColorScheme.Dark else "light"


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
