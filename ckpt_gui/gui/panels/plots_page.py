"""The page of plots: distribution, heat map, layers and casts of the chosen tensor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import (
    QButtonGroup,
    QComboBox,
    QFileDialog,
    QHBoxLayout,
    QStackedWidget,
    QToolButton,
    QVBoxLayout,
    QWidget,
)  # fmt: skip

from ckpt_gui.core.dtypes import CASTABLE
from ckpt_gui.core.errors import Cancelled, CheckpointError
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.stats import HeatMap, heat_map
from ckpt_gui.core.tables import csv_text
from ckpt_gui.core.tensors import TensorRef
from ckpt_gui.gui.jobs import Job
from ckpt_gui.gui.language import said
from ckpt_gui.gui.panels.heat_zoom import HeatZoom
from ckpt_gui.gui.panels.parts import button
from ckpt_gui.gui.panels.plot_views import VIEWS, PlotView
from ckpt_gui.gui.panels.tensor_choice import TensorChoice
from ckpt_gui.gui.session import Session
from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.widgets.job_bar import JobBar
from ckpt_gui.gui.widgets.plot_canvas import PlotCanvas
from ckpt_gui.gui.widgets.units import GRID, plain_label

Asked = tuple[str, TensorRef, str]  # view, tensor, option


class PlotsPage(QWidget):
    """One tensor, one kind of picture at a time; worked out while the page is looked at."""

    def __init__(self, session: Session, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self.view = VIEWS[0]
        self._shown: dict[str, tuple[Asked, Any]] = {}  # what each view shows
        self.setAccessibleName(self.tr("Plots"))
        self.choice = TensorChoice(session, theme)
        self.target = QComboBox()
        self.target.setAccessibleName(self.tr("Type of the cast"))
        for dtype in CASTABLE:
            self.target.addItem(self.tr("to {dtype}").format(dtype=dtype), dtype)
        self.canvases: dict[str, PlotCanvas[Any]] = {
            view.name: PlotCanvas(session.jobs, theme, view.make, said(view.tip)) for view in VIEWS
        }
        self.zoom = HeatZoom(self.canvases["heat"])
        self.job = JobBar(session.jobs)
        self.message, self.hint = plain_label(), plain_label(muted=True)
        self.hint.setMinimumHeight(2 * self.hint.fontMetrics().lineSpacing())  # what is under the mouse moves nothing
        self.copy_button, self.save_button = button(self.tr("Copy picture")), button(self.tr("Save numbers…"))
        self.buttons = self._make_buttons()
        self._lay_out()
        self._connect()
        self._on_tensor(self.choice.ref)
        self.turn_to(VIEWS[0].name)

    def _make_buttons(self) -> dict[str, QToolButton]:
        group = QButtonGroup(self)
        made = {}
        for view in VIEWS:
            each = QToolButton()
            each.setText(said(view.title))
            each.setToolTip(said(view.tip))
            each.setCheckable(True)
            each.setProperty("kind", "segment")
            each.setAccessibleName(said(view.title).replace("&", ""))
            group.addButton(each)
            each.clicked.connect(lambda _=False, name=view.name: self.turn_to(name))
            made[view.name] = each
        return made

    def _lay_out(self) -> None:
        kinds = QHBoxLayout()
        kinds.setSpacing(0)
        for each in self.buttons.values():
            kinds.addWidget(each)
        kinds.addSpacing(GRID)
        kinds.addWidget(self.target)
        kinds.addStretch()
        head = QHBoxLayout()  # two rows that are about as wide: the window need not grow with large letters
        head.setSpacing(GRID)
        head.addWidget(self.choice, 1)
        head.addWidget(self.copy_button)
        head.addWidget(self.save_button)
        self.stack = QStackedWidget()
        for canvas in self.canvases.values():
            self.stack.addWidget(canvas)
        column = QVBoxLayout(self)
        column.setContentsMargins(12, 12, 12, 12)
        column.setSpacing(GRID)
        column.addLayout(head)
        column.addLayout(kinds)
        for line in (self.message, self.job):
            column.addWidget(line)
        column.addWidget(self.stack, 1)
        column.addWidget(self.hint)

    def _connect(self) -> None:
        session = self._session
        self.choice.chosen.connect(self._on_tensor)
        self.target.activated.connect(lambda _: self._calculate())
        self.copy_button.clicked.connect(lambda: self.canvases[self.view.name].copy())
        self.save_button.clicked.connect(self._ask_where)
        self.zoom.wanted.connect(self._read_part)
        self.zoom.named.connect(self._name)
        self.job.stopped.connect(lambda: self._say(self.tr("Stopped. Choose the picture again to start anew.")))
        session.opening.connect(lambda _: self._forget())
        session.closed.connect(self._forget)

    def turn_to(self, name: str) -> bool:
        """Turn to a kind of picture; return False if there is none of that name."""
        if name not in self.buttons:
            return False
        self.view = next(view for view in VIEWS if view.name == name)
        self.buttons[name].setChecked(True)
        self.stack.setCurrentWidget(self.canvases[name])
        self.target.setVisible(name == "cast")
        self._name("")
        self._calculate()
        return True

    def _on_tensor(self, ref: TensorRef | None) -> None:
        if ref is not None and ref.dtype == self.target.currentData():  # a cast to its own type shows nothing
            self.target.setCurrentIndex((self.target.currentIndex() + 1) % self.target.count())
        self._calculate()

    def showEvent(self, event: QShowEvent) -> None:
        """Work out what is wanted, now that it is seen."""
        super().showEvent(event)
        self._calculate()

    def hideEvent(self, event: QHideEvent) -> None:
        """Stop what nobody looks at."""
        super().hideEvent(event)
        if not event.spontaneous():
            self.job.stop()

    def _forget(self) -> None:
        self.job.stop()
        self._shown.clear()

    # ------------------------------------------------------------------------------------------------- working out

    def _calculate(self) -> None:
        snapshot, ref, view = self._session.snapshot, self.choice.ref, self.view
        self.stack.setVisible(ref is not None)
        if not self.isVisible():
            return
        if snapshot is None or ref is None:
            self._say(self.tr("Select a tensor in the tree, or name one above, to see its picture."))
            return
        asked: Asked = (view.name, ref, self.target.currentData() if view.name == "cast" else "")
        self._say("")
        if view.name in self._shown and self._shown[view.name][0] == asked:
            self.stack.show()
            return
        plan = snapshot.plan

        def work(job: Job) -> Any:
            return view.work(plan, ref, asked[2], job)

        title = self.tr("Working out the picture of {key}").format(key=safe_text(ref.key, 60))
        self.job.run(title, work, lambda found: self._show(view, asked, found), self._failed)

    def _show(self, view: PlotView, asked: Asked, found: Any) -> None:
        self._shown[view.name] = (asked, found)
        self.stack.show()
        self.canvases[view.name].show_data(lambda plot: view.draw(plot, found, asked[1]))
        if isinstance(found, HeatMap):
            self.zoom.begin(asked[1], found)
            self._name("")

    def _failed(self, error: BaseException) -> None:
        fix = error.fix if isinstance(error, CheckpointError) else None
        self._say(safe_text(f"{error} {fix or ''}".strip(), 600) if not isinstance(error, Cancelled) else "")
        self.stack.hide()

    def _read_part(self, rows: tuple[int, int], columns: tuple[int, int]) -> None:
        """Read the part of a heat map that is in sight."""
        snapshot, ref = self._session.snapshot, self.choice.ref
        if snapshot is None or ref is None or self.view.name != "heat":
            return
        source = snapshot.source

        def work(job: Job) -> HeatMap:
            return heat_map(source, ref, rows=rows, columns=columns, progress=job.progress, cancelled=job.cancelled)

        def done(found: HeatMap) -> None:
            if "heat" in self._shown:
                self._shown["heat"] = (self._shown["heat"][0], found)
                self.zoom.show_part(found)

        self.job.run(self.tr("Reading the part in sight"), work, done, self._failed)

    def _say(self, text: str) -> None:
        self.message.setText(said(text))
        self.message.setVisible(bool(text))

    def _name(self, text: str) -> None:
        if self.view.name == "heat" and not text:
            text = self.tr("The wheel zooms; the buttons move and go back to the whole.")
            _, found = self._shown.get("heat", (None, None))
            if isinstance(found, HeatMap) and found.bad.any():
                text += " " + self.tr("What is not finite is drawn in strong yellow.")
        self.hint.setText(said(text))

    # ------------------------------------------------------------------------------------------------------- saving

    def _ask_where(self) -> None:
        if self.view.name not in self._shown or self.choice.ref is None:
            return
        name = safe_text(f"{self.choice.ref.key}-{self.view.name}.csv", 120)
        path, _ = QFileDialog.getSaveFileName(self, self.tr("Save the numbers"), name, "CSV (*.csv)")
        if path:
            self.save_numbers(path)

    def save_numbers(self, path: str) -> None:
        """Save the numbers behind the picture as CSV."""
        view, found = self.view, self._shown[self.view.name][1]

        def work(_: Job) -> None:
            Path(path).write_text(csv_text(view.table(found)), encoding="utf-8")

        def done(_: None) -> None:
            self._say(self.tr("Saved {}.").format(safe_text(path, 200)))

        def failed(error: BaseException) -> None:
            self._say(self.tr("Not saved: {}").format(safe_text(str(error), 300)))

        self.job.run(self.tr("Saving the numbers"), work, done, failed)
