"""The card that says what a checkpoint is: its layout, what is around the weights, facts, and whether it is safe."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QPaintEvent
from PySide6.QtWidgets import QComboBox, QGridLayout, QHBoxLayout, QLabel, QSizePolicy, QVBoxLayout, QWidget

from ckpt_gui.core.passes.section import shown
from ckpt_gui.gui.language import said
from ckpt_gui.gui.looks import SEVERITY_STYLES
from ckpt_gui.gui.models.card import CheckpointCard
from ckpt_gui.gui.panels.finding_card import coloured
from ckpt_gui.gui.panels.parts import Card, FlowLayout, label
from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.widgets.painting import painting
from ckpt_gui.gui.widgets.units import GRID, breakable, tip_text


class WhatCard(Card):
    """Shows a card's title, nesting, facts and safety.

    Signals:
        section_chosen(section): The user wants the weights from another section.
    """

    section_chosen = Signal(object)

    def __init__(self, card: CheckpointCard, chosen: tuple[str, ...] | None, theme: Theme) -> None:
        super().__init__()
        self._theme = theme
        evidence = "<br>".join(tip_text(s) for s in card.evidence)
        title = label(card.title, size=1.25, bold=True, wrap=True)
        title.setToolTip(evidence)
        title.setMinimumWidth(8 * self.fontMetrics().height())
        self.body.addWidget(title)
        if card.nesting:
            self.body.addWidget(self._tags(card.nesting, evidence))
        self.body.addSpacing(GRID // 2)
        self.body.addLayout(self._facts(card))
        if card.sections:
            self.body.addLayout(self._chooser(card.sections, chosen))
        self.body.addSpacing(GRID // 2)
        self.body.addLayout(self._safety(card))

    def _tags(self, texts: Sequence[str], tip: str) -> QWidget:
        tags = QWidget()
        flow = FlowLayout(tags, spacing=GRID // 2)
        for text in texts:
            flow.addWidget(_Tag(text, self._theme))
        tags.setToolTip(tip)
        return tags

    def _facts(self, card: CheckpointCard) -> QGridLayout:
        grid = QGridLayout()
        grid.setHorizontalSpacing(int(1.5 * GRID))
        grid.setVerticalSpacing(GRID // 2 + 2)
        grid.setColumnStretch(1, 1)
        for line, fact in enumerate(card.facts):
            name, value = label(fact.label, muted=True), label(breakable(fact.value), wrap=True)
            for each in (name, value):
                each.setToolTip(tip_text(fact.evidence))
            value.setMinimumWidth(3 * self.fontMetrics().height())
            value.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
            grid.addWidget(name, line, 0, Qt.AlignmentFlag.AlignTop)
            grid.addWidget(value, line, 1, Qt.AlignmentFlag.AlignTop)
        return grid

    def _chooser(self, sections: Sequence[tuple[str, ...]], chosen: tuple[str, ...] | None) -> QVBoxLayout:
        combo = QComboBox()
        combo.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        combo.setAccessibleName(self.tr("Section with the weights"))
        for section in sections:
            combo.addItem(shown(section) or self.tr("the top level"), section)
        combo.setPlaceholderText(self.tr("Choose one…"))  # what has not been chosen must not look so
        combo.setCurrentIndex(next((n for n, s in enumerate(sections) if s == chosen), -1))
        combo.activated.connect(lambda place: self.section_chosen.emit(sections[place]))
        name = label(self.tr("Take the weights from"), muted=True)
        name.setBuddy(combo)
        box = QVBoxLayout()
        box.setSpacing(GRID // 2)
        box.addWidget(name)
        box.addWidget(combo)
        return box

    def _safety(self, card: CheckpointCard) -> QHBoxLayout:
        kind = "ok" if card.safe else "error"
        line = QHBoxLayout()
        line.setSpacing(GRID)
        line.addWidget(coloured(SEVERITY_STYLES[kind][0], kind, self._theme), 0, Qt.AlignmentFlag.AlignTop)
        line.addWidget(label(card.safety, wrap=True), 1)
        return line


class _Tag(QLabel):
    """A short word with a tinted ground."""

    def __init__(self, text: str, theme: Theme) -> None:
        super().__init__(said(text))
        self._theme = theme
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setContentsMargins(GRID, 2, GRID, 2)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint the ground, then the text."""
        with painting(self, smooth=True) as painter:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(self._theme.tint("blue", 0.12))
            painter.drawRoundedRect(self.rect(), GRID // 2, GRID // 2)
        super().paintEvent(event)
