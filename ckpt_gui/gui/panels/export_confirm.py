"""The card of the export dialog that asks about steps that are likely and not certain: each wants a tick."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QCheckBox, QVBoxLayout, QWidget

from ckpt_gui.core.plan import Step
from ckpt_gui.gui.models.plan_rows import sentence
from ckpt_gui.gui.panels.parts import Card, clear
from ckpt_gui.gui.snapshot import Snapshot
from ckpt_gui.gui.widgets.units import breakable, heading, plain_label, quoted


class ConfirmCard(Card):
    """Hidden where nothing is a guess.

    Signals:
        confirmed(step): A step was ticked, or unticked again.
    """

    confirmed = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.boxes: list[QCheckBox] = []
        self._rows = QVBoxLayout()
        self.body.addWidget(heading(self.tr("Likely, not certain: please look at it and tick it")))
        self.body.addLayout(self._rows)

    def show_snapshot(self, snapshot: Snapshot) -> None:
        """Show the steps of an export that nothing proves."""
        clear(self._rows)
        self.boxes = []
        unsure = [step for step in snapshot.export.steps if not step.certain]
        for step in unsure:
            self._add(step, step not in snapshot.unconfirmed)
        self.setVisible(bool(unsure))

    def _add(self, step: Step, ticked: bool) -> None:
        box = QCheckBox(quoted(step.title))
        box.setChecked(ticked)
        box.setAccessibleName(quoted(step.title))
        box.setAccessibleDescription(quoted(step.evidence))
        box.setToolTip(self.tr("Tick it once you have looked at it"))
        box.clicked.connect(lambda _=False: self.confirmed.emit(step))
        self.boxes.append(box)
        self._rows.addWidget(box)
        self._rows.addWidget(plain_label(breakable(sentence(quoted(step.evidence))), muted=True))
