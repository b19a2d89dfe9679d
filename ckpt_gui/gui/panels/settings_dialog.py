"""What a user chooses once for all. Everything takes effect at once; there is nothing to confirm."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from PySide6.QtCore import Qt, QUrl, Signal
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QDialog,
    QDialogButtonBox,
    QFormLayout,
    QHBoxLayout,
    QLabel,
    QSpinBox,
    QVBoxLayout,
    QWidget,
)  # fmt: skip

from ckpt_gui.gui.crash_log import log_folder
from ckpt_gui.gui.language import said
from ckpt_gui.gui.layouts import LAYOUTS
from ckpt_gui.gui.panels.parts import Card, ElidedLabel, button, label
from ckpt_gui.gui.settings import MOST_RECENTS, Settings
from ckpt_gui.gui.theme import LEAST_POINTS, MOST_POINTS, SCHEMES, Theme
from ckpt_gui.gui.widgets.scroll_body import ScrollBody, scroll_area
from ckpt_gui.gui.widgets.units import GRID, em


class SettingsDialog(QDialog):
    """Shows the settings, and changes them as the user does.

    Attributes:
        scheme_box, points_box, still_box, layout_box, reuse_box, cores_box, offer_box, ask_box, recents_box,
            filters_box: The controls.

    Signals:
        scheme_chosen(scheme): Other colours are wanted.
        layout_chosen(layout): Exports shall go to another layout; empty for the one that fits.
        shortcuts_wanted(): The user wants to change shortcuts.
        cores_chosen(wanted): Long work may use every core, or no longer.
        recents_changed(): Fewer recent checkpoints may be remembered now.
        was_reset(): All is as delivered again.
    """

    scheme_chosen = Signal(str)
    layout_chosen = Signal(str)
    shortcuts_wanted = Signal()
    cores_chosen = Signal(bool)
    recents_changed = Signal()
    was_reset = Signal()

    def __init__(self, settings: Settings, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._settings, self._theme = settings, theme
        self.setWindowTitle(self.tr("Settings"))
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self._make_controls()
        self._lay_out()
        self.show_settings()
        self._connect()

    # -------------------------------------------------------------------------------------------------------- making

    def _make_controls(self) -> None:
        self.scheme_box = QComboBox()
        words = {
            "system": self.tr("As the system"),
            "light": self.tr("Light"),
            "dark": self.tr("Dark"),
            "contrast": self.tr("High contrast"),
        }
        for scheme in SCHEMES:
            self.scheme_box.addItem(words[scheme], scheme)
        self.points_box = QSpinBox()
        self.points_box.setRange(LEAST_POINTS - 1, MOST_POINTS)
        self.points_box.setSpecialValueText(self.tr("As the system"))
        self.points_box.setSuffix(self.tr(" pt"))
        self.still_box = QCheckBox(self.tr("Nothing moves by itself"))
        self.still_box.setToolTip(self.tr("Bars that wait stand still, docks do not glide, the cursor does not blink"))
        self.layout_box = QComboBox()
        self.layout_box.addItem(self.tr("The one that fits the model"), "")
        for name, title in LAYOUTS.items():
            self.layout_box.addItem(said(title), name)
        self.layout_box.setToolTip(self.tr("What an export of a checkpoint that is opened from now on goes to"))
        self.offer_box = QCheckBox(self.tr("Offer what was open last time"))
        self.reuse_box = QCheckBox(self.tr("Open files from the desktop in the window that is there"))
        self.reuse_box.setToolTip(self.tr("Unless its plan was edited; else each opens in a window of its own"))
        self.cores_box = QCheckBox(self.tr("Use every core for long work"))
        self.cores_box.setToolTip(
            self.tr(
                "Statistics, scans, comparisons and exports that start from now on; otherwise they take two threads"
            )
        )
        self.ask_box = QCheckBox(self.tr("Ask before closing while work is running"))
        self.recents_box, self.filters_box = QSpinBox(), QSpinBox()
        for box in (self.recents_box, self.filters_box):
            box.setRange(0, MOST_RECENTS)
            box.setSpecialValueText(self.tr("None"))
        for box in (self.points_box, self.recents_box, self.filters_box):
            box.lineEdit().setTextMargins(GRID, 0, 0, 0)
        self.reset_button = button(self.tr("Reset everything"), tip=self.tr("As delivered; also forgets what was used"))
        self.keys_button = button(self.tr("Keyboard shortcuts…"))
        self.told = label(muted=True, wrap=True)

    def _lay_out(self) -> None:
        body = ScrollBody()
        column = QVBoxLayout(body)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(2 * GRID)
        column.addWidget(
            self._card(
                self.tr("Looks"),
                (self.tr("&Colours"), self.scheme_box),
                (self.tr("Si&ze of the letters"), self.points_box),
                ("", self.still_box),
            )
        )
        work = (
            (self.tr("&Export to"), self.layout_box),
            ("", self.cores_box),
            ("", self.reuse_box),
            ("", self.ask_box),
        )
        column.addWidget(self._card(self.tr("Work"), *work))
        column.addWidget(
            self._card(
                self.tr("What is remembered"),
                (self.tr("&Recent checkpoints"), self.recents_box),
                (self.tr("Last &filters"), self.filters_box),
                ("", self.offer_box),
            )
        )
        column.addWidget(self._places())
        column.addStretch(1)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        buttons.addButton(self.reset_button, QDialogButtonBox.ButtonRole.ResetRole)
        buttons.addButton(self.keys_button, QDialogButtonBox.ButtonRole.ActionRole)
        buttons.rejected.connect(self.close)
        area = scroll_area(body)
        area.setAccessibleName(self.tr("Settings"))
        layout = QVBoxLayout(self)
        layout.setContentsMargins(2 * GRID, 2 * GRID, 2 * GRID, 2 * GRID)
        layout.setSpacing(GRID)
        layout.addWidget(area, 1)
        layout.addWidget(self.told)
        layout.addWidget(buttons)
        room = self.screen().availableSize() * 0.9
        self.resize(min(em(self, 34), room.width()), min(em(self, 42), room.height()))

    def _card(self, title: str, *rows: tuple[str, QWidget]) -> Card:
        card = Card()
        card.body.addWidget(label(title, bold=True, size=1.15))
        form = QFormLayout()
        form.setHorizontalSpacing(2 * GRID)
        form.setVerticalSpacing(GRID)
        form.setRowWrapPolicy(QFormLayout.RowWrapPolicy.WrapLongRows)
        for text, control in rows:
            if text:
                name = QLabel(text)
                name.setBuddy(control)
                control.setAccessibleName(text.replace("&", ""))
                form.addRow(name, control)
            else:
                form.addRow(control)
        card.body.addLayout(form)
        return card

    def _places(self) -> Card:
        """Return where things are kept, each with a button that opens the folder."""
        from ckpt_gui.core.stats.cache import default_folder  # numpy: not before the window

        card = Card()
        card.body.addWidget(label(self.tr("Where things are kept"), bold=True, size=1.15))
        for name, path in (
            (self.tr("These settings"), Path(self._settings.file).parent),
            (self.tr("Statistics of tensors"), default_folder()),
            (self.tr("Logs of crashes"), log_folder()),
        ):
            card.body.addWidget(label(name))
            shown = ElidedLabel()
            shown.setProperty("tone", "muted")
            shown.set_text(str(path))
            opener = button(self.tr("Show folder"), kind="quiet")
            opener.setAccessibleName(self.tr("Show the folder: {}").format(name))
            opener.clicked.connect(partial(self._show_folder, path))
            line = QHBoxLayout()
            line.addWidget(shown, 1)
            line.addWidget(opener)
            card.body.addLayout(line)
        return card

    def _connect(self) -> None:
        self.scheme_box.activated.connect(lambda _: self.scheme_chosen.emit(self.scheme_box.currentData()))
        self.points_box.valueChanged.connect(self._on_points)
        self.still_box.toggled.connect(self._on_still)
        self.layout_box.activated.connect(self._on_layout)
        self.offer_box.toggled.connect(lambda on: setattr(self._settings, "offers_session", on))
        self.reuse_box.toggled.connect(lambda on: setattr(self._settings, "reuses_window", on))
        self.cores_box.toggled.connect(self._on_cores)
        self.ask_box.toggled.connect(lambda on: setattr(self._settings, "asks_to_close", on))
        self.recents_box.valueChanged.connect(self._on_recents)
        self.filters_box.valueChanged.connect(lambda number: setattr(self._settings, "num_filters", number))
        self.keys_button.clicked.connect(self.shortcuts_wanted)
        self.reset_button.clicked.connect(self._on_reset)

    # ------------------------------------------------------------------------------------------------------- showing

    def show_settings(self) -> None:
        """Show what is chosen now."""
        settings = self._settings
        self.scheme_box.setCurrentIndex(self.scheme_box.findData(self._theme.scheme))
        self.points_box.setValue(self._theme.points or self.points_box.minimum())
        self.still_box.setChecked(self._theme.still)
        self.layout_box.setCurrentIndex(max(0, self.layout_box.findData(settings.layout)))
        self.offer_box.setChecked(settings.offers_session)
        self.reuse_box.setChecked(settings.reuses_window)
        self.cores_box.setChecked(settings.all_cores)
        self.ask_box.setChecked(settings.asks_to_close)
        self.recents_box.setValue(settings.num_recents)
        self.filters_box.setValue(settings.num_filters)

    # ------------------------------------------------------------------------------------------------------ changing

    def _on_points(self, value: int) -> None:
        self._settings.points = points = value if value >= LEAST_POINTS else 0
        self._theme.set_points(points)

    def _on_still(self, still: bool) -> None:
        self._settings.still = still
        self._theme.set_still(still)

    def _on_layout(self, _place: int) -> None:
        self._settings.layout = self.layout_box.currentData()
        self.layout_chosen.emit(self._settings.layout)

    def _on_cores(self, wanted: bool) -> None:
        self._settings.all_cores = wanted
        self.cores_chosen.emit(wanted)

    def _on_recents(self, number: int) -> None:
        self._settings.num_recents = number
        self.recents_changed.emit()

    def _on_reset(self) -> None:
        self._settings.clear()
        self._theme.set_points(0)
        self._theme.set_still(False)
        self.was_reset.emit()
        self.show_settings()
        self.told.setText(self.tr("Everything is as delivered."))

    def _show_folder(self, path: Path) -> None:
        if not path.is_dir() or not QDesktopServices.openUrl(QUrl.fromLocalFile(str(path))):
            self.told.setText(self.tr("Nothing is kept there yet.") if not path.is_dir() else str(path))
