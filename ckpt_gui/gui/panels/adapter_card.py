"""The card of an adapter: rank, alpha and scale of every module, and what can be done with it."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QTreeWidget, QTreeWidgetItem, QWidget

from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.text import plural
from ckpt_gui.gui.models.adapter_rows import AdapterRow
from ckpt_gui.gui.panels.parts import Card, FlowLayout, button
from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.widgets.units import em, heading, tip_text

ROWS_SHOWN = 8  # without scrolling inside
_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter


class AdapterCard(Card):
    """Lists the modules.

    Signals:
        action_wanted(id): A button was pressed; see `gui.actions`.
    """

    action_wanted = Signal(str)

    def __init__(self, rows: Sequence[AdapterRow], theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.table = self._make_table(rows, theme)
        self.merge_button = button(self.tr("Merge into a base…"), tip=self.tr("Open the model that it was trained on"))
        self.convert_button = button(self.tr("Convert to…"), tip=self.tr("Write it as PEFT or torchtune have it"))
        self.merge_button.clicked.connect(lambda: self.action_wanted.emit("merge-into"))
        self.convert_button.clicked.connect(lambda: self.action_wanted.emit("export"))
        buttons = FlowLayout()
        for each in (self.merge_button, self.convert_button):
            buttons.addWidget(each)
        self.body.addWidget(heading(plural(len(rows), "module")))
        self.body.addWidget(self.table)
        self.body.addLayout(buttons)

    def _make_table(self, rows: Sequence[AdapterRow], theme: Theme) -> QTreeWidget:
        table = QTreeWidget()
        table.setAccessibleName(self.tr("Modules of the adapter"))
        table.setHeaderLabels([self.tr("Module"), "r", "α", self.tr("scale")])
        for column, tip in enumerate((self.tr("Rank"), self.tr("Alpha"), self.tr("What B · A is multiplied by")), 1):
            table.headerItem().setToolTip(column, tip)
            table.headerItem().setTextAlignment(column, _RIGHT)
        table.setRootIsDecorated(False)
        table.setUniformRowHeights(True)
        table.setSelectionMode(QAbstractItemView.SelectionMode.NoSelection)
        table.setTextElideMode(Qt.TextElideMode.ElideLeft)
        table.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        for row in rows:
            item = QTreeWidgetItem([safe_text(row.module), row.rank, row.alpha, row.scale])
            item.setFont(0, theme.fixed_font())
            item.setToolTip(0, tip_text(row.module))
            for column in (1, 2, 3):
                item.setTextAlignment(column, _RIGHT)
            table.addTopLevelItem(item)
        header = table.header()
        header.setStretchLastSection(False)
        header.setMinimumSectionSize(em(table, 1.5))
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        header.setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        table.setFixedHeight(round((min(len(rows), ROWS_SHOWN) + 1.2) * 1.8 * em(table)))
        return table
