"""The second tab of the inspector: figures of the selected tensor, calculated while the tab is looked at."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import QFrame, QScrollArea, QVBoxLayout, QWidget

from ckpt_gui.core.diff import Row
from ckpt_gui.core.errors import Cancelled
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.stats import BINS, TensorStats, first_values, tensor_stats
from ckpt_gui.core.tensors import Source, TensorRef
from ckpt_gui.gui.jobs import Job
from ckpt_gui.gui.session import Session
from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.widgets.facts import FactList
from ckpt_gui.gui.widgets.job_bar import JobBar
from ckpt_gui.gui.widgets.mini_histogram import MiniHistogram
from ckpt_gui.gui.widgets.scroll_body import ScrollBody
from ckpt_gui.gui.widgets.units import GRID, figure_text, heading, plain_label

KEPT = 256  # results that are remembered
Found = tuple[TensorStats, tuple[float, ...]]


class StatisticsTab(QScrollArea):
    """Figures, a histogram and the first values of one tensor."""

    def __init__(self, session: Session, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session, self._theme = session, theme
        self._source: Source | None = None
        self._ref: TensorRef | None = None
        self._nothing = self.tr("Select a tensor in the tree to see its figures.")
        self._known: dict[tuple[object, ...], Found] = {}
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.message = plain_label(muted=True)
        self.job = JobBar(session.jobs)
        self.moments, self.counts, self.values = self._make_lists()
        self._shape = heading(self.tr("Distribution"))
        self.histogram = MiniHistogram(theme)
        self._lay_out()
        self.job.stopped.connect(self._on_stopped)
        self._show_found(None)

    def _make_lists(self) -> tuple[FactList, FactList, FactList]:
        tr = self.tr
        moments = FactList(
            tr("Figures of the finite values"),
            [
                ("mean", tr("Mean")), ("std", tr("Deviation")), ("min", tr("Minimum")), ("max", tr("Maximum")),
                ("abs_max", tr("Largest |x|")), ("l2", tr("L2 norm")),
            ],
        )  # fmt: skip
        counts = FactList(
            tr("Counts"),
            [
                ("count", tr("Elements")),
                ("zeros", tr("Zeros")),
                ("nan", "NaN"),
                ("pos_inf", "+Inf"),
                ("neg_inf", "−Inf"),
            ],
        )
        return moments, counts, FactList(tr("First values"), [("first", tr("In order"))])

    def _lay_out(self) -> None:
        body = ScrollBody()
        column = QVBoxLayout(body)
        column.setContentsMargins(12, 12, 12, 12)
        column.setSpacing(2 * GRID)
        for widget in (self.message, self.job, self.moments, self.counts, self._shape, self.histogram, self.values):
            column.addWidget(widget)
        column.addStretch(1)
        self.setWidget(body)

    def show_row(self, row: Row | None, source: Source | None) -> None:
        """Turn to another tensor; what is being calculated for the last one is stopped."""
        ref = row.ref if row is not None else None
        if ref is not None and ref is self._ref and source is self._source:
            return
        self._nothing = (
            self.tr("Select a tensor in the tree to see its figures.")
            if row is None
            else self.tr("There is no tensor in the file for this row.")
        )
        if source is not self._source:
            self._known.clear()
        self._source, self._ref = source, ref
        self.job.stop()
        self._show_found(None)
        if self.isVisible():
            self._calculate()

    def showEvent(self, event: QShowEvent) -> None:
        """Start what is wanted, now that it is seen."""
        super().showEvent(event)
        if not event.spontaneous():
            self._calculate()

    def hideEvent(self, event: QHideEvent) -> None:
        """Stop what nobody looks at."""
        super().hideEvent(event)
        if not event.spontaneous():
            self.job.stop()

    def _calculate(self) -> None:
        source, ref = self._source, self._ref
        if source is None or ref is None:
            self._say(self._nothing)
            return
        if self.job.running:
            return
        if ref.place in self._known:
            self._show_found(self._known[ref.place])
            return

        def work(job: Job) -> Found:
            found = tensor_stats(source, ref, bins=BINS, progress=job.progress, cancelled=job.cancelled)
            return found, first_values(source, ref)

        self._say("")
        title = self.tr("Statistics of {key}").format(key=safe_text(ref.key, 60))
        self.job.run(title, work, self._calculated, self._failed)

    def _calculated(self, found: Found) -> None:
        assert self._ref is not None
        if len(self._known) >= KEPT:
            self._known.pop(next(iter(self._known)))
        self._known[self._ref.place] = found
        self._show_found(found)

    def _failed(self, error: BaseException) -> None:
        fix = getattr(error, "fix", None)
        text = self.tr("Stopped.") if isinstance(error, Cancelled) else f"{error} {fix or ''}".strip()
        self._say(safe_text(text, 600))

    def _on_stopped(self) -> None:
        self._say(self.tr("Stopped. Select the tensor again to start anew."))

    def _say(self, text: str) -> None:
        self.message.setText(text)
        self.message.setVisible(bool(text))

    def _show_found(self, found: Found | None) -> None:
        for facts in (self.moments, self.counts, self.values):
            facts.clear()
        stats = found[0] if found else None
        histogram = stats.histogram if stats else None
        self._shape.setVisible(histogram is not None)
        self.histogram.setVisible(histogram is not None)
        self._say(stats.reason or "" if stats else "")
        if stats is None or found is None:
            return
        self.counts.set_value("count", f"{stats.count:,}")
        if stats.reason:
            return
        fixed = self._theme.fixed_font()
        for name in ("mean", "std", "min", "max", "abs_max", "l2"):
            value = getattr(stats, name)
            self.moments.set_value(name, figure_text(value) if value is not None else "", font=fixed)
        for name in ("zeros", "nan", "pos_inf", "neg_inf"):
            self.counts.set_value(name, _share(getattr(stats, name), stats.count))
        self.values.set_value("first", "  ".join(figure_text(v) for v in found[1]), font=fixed)
        if histogram is not None:
            self.histogram.show_counts(histogram.counts, figure_text(stats.min), figure_text(stats.max))


def _share(number: int, count: int) -> str:
    """Return a count with its share of all.

    >>> _share(0, 10), _share(5, 10)
    ('0', '5 (50 %)')
    """
    return f"{number:,} ({100 * number / count:.3g} %)" if number and count else f"{number:,}"
