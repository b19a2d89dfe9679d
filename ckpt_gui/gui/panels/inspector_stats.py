"""The second tab of the inspector: figures of the selected tensor, calculated while the tab is looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtWidgets import QWidget

from ckpt_gui.core.diff import Row
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.source import Source
from ckpt_gui.core.tensors import TensorRef
from ckpt_gui.gui.jobs import Job
from ckpt_gui.gui.session import Session
from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.widgets.facts import FactList
from ckpt_gui.gui.widgets.live_area import LiveArea
from ckpt_gui.gui.widgets.mini_histogram import MiniHistogram
from ckpt_gui.gui.widgets.units import heading
from ckpt_gui.gui.wording import count_text, figure_text

if TYPE_CHECKING:
    from ckpt_gui.core.stats import TensorStats

KEPT = 256  # results that are remembered
Found = tuple["TensorStats", tuple[float, ...]]


class StatisticsTab(LiveArea):
    """Figures, a histogram and the first values of one tensor."""

    def __init__(self, session: Session, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(session.jobs, parent)
        self._session, self._theme = session, theme
        self._source: Source | None = None
        self._ref: TensorRef | None = None
        self._nothing = self.tr("Select a tensor in the tree to see its figures.")
        self._known: dict[tuple[object, ...], Found] = {}
        self.moments, self.counts, self.values = self._make_lists()
        self._shape = heading(self.tr("Distribution"))
        self.histogram = MiniHistogram(theme)
        self.lay_out(self.message, self.job, self.moments, self.counts, self._shape, self.histogram, self.values)
        self.job.stopped.connect(self._on_stopped)
        self._show_found(None)

    def _make_lists(self) -> tuple[FactList, FactList, FactList]:
        tr = self.tr
        moments = FactList(
            tr("Figures of the finite values"),
            [
                ("mean", tr("Mean")), ("std", tr("Deviation")), ("min", tr("Minimum")), ("max", tr("Maximum")),
                ("abs_max", tr("Largest |x|")), ("l2", tr("L2 norm")), ("quantiles", tr("Quantiles")),
                ("caption", ""), ("fits", tr("Fits into")),
            ],
        )  # fmt: skip
        counts = FactList(
            tr("Counts"),
            [
                ("count", tr("Elements")),
                ("distinct", tr("Distinct values")),
                ("zeros", tr("Zeros")),
                ("neg_zeros", tr("of them −0")),
                ("subnormals", tr("Subnormal")),
                ("nan", "NaN"),
                ("pos_inf", "+Inf"),
                ("neg_inf", "−Inf"),
            ],
        )
        return moments, counts, FactList(tr("First values"), [("first", tr("In order"))])

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
            self.calculate()

    def calculate(self) -> None:
        """Work out the figures of the selected tensor, or show those that are known."""
        source, ref = self._source, self._ref
        if source is None or ref is None:
            self.say(self._nothing)
            return
        if self.job.running:
            return
        if ref.place in self._known:
            self._show_found(self._known[ref.place])
            return

        def work(job: Job) -> Found:
            from ckpt_gui.core.stats import BINS, StatsCache, first_values, tensor_stats  # numpy: not before the window

            found = tensor_stats(
                source, ref, bins=BINS, progress=job.progress, cancelled=job.cancelled, cache=StatsCache()
            )
            return found, first_values(source, ref)

        self.say("")
        title = self.tr("Statistics of {key}").format(key=safe_text(ref.key, 60))
        self.job.run(title, work, self._calculated, self.say_error)

    def _calculated(self, found: Found) -> None:
        assert self._ref is not None
        if len(self._known) >= KEPT:
            self._known.pop(next(iter(self._known)))
        self._known[self._ref.place] = found
        self._show_found(found)

    def _on_stopped(self) -> None:
        self.say(self.tr("Stopped. Select the tensor again to start anew."))

    def _show_found(self, found: Found | None) -> None:
        for facts in (self.moments, self.counts, self.values):
            facts.clear()
        stats = found[0] if found else None
        histogram = stats.histogram if stats else None
        self._shape.setVisible(histogram is not None)
        self.histogram.setVisible(histogram is not None)
        self.say(stats.reason or "" if stats else "")
        if stats is None or found is None:
            return
        self.counts.set_value("count", count_text(stats.count))
        if stats.reason:
            return
        fixed = self._theme.fixed_font()
        for name in ("mean", "std", "min", "max", "abs_max", "l2"):
            value = getattr(stats, name)
            self.moments.set_value(name, figure_text(value) if value is not None else "", font=fixed)
        quantiles = "\n".join(f"{100 * share:g} %  {figure_text(value)}" for share, value in stats.quantiles)
        self.moments.set_value("quantiles", quantiles, font=fixed)
        self.moments.set_value("caption", stats.caption if quantiles and not stats.exact else "")
        self.moments.set_value("fits", ", ".join(stats.fits))
        self.counts.set_value("distinct", "" if stats.distinct is None else count_text(stats.distinct))
        for name in ("zeros", "nan", "pos_inf", "neg_inf"):
            self.counts.set_value(name, _share(getattr(stats, name), stats.count))
        for name in ("neg_zeros", "subnormals"):
            number = getattr(stats, name)
            self.counts.set_value(name, _share(number, stats.count) if number else "")
        self.values.set_value("first", "  ".join(figure_text(v) for v in found[1]), font=fixed)
        if histogram is not None:
            self.histogram.show_counts(histogram.counts, figure_text(stats.min), figure_text(stats.max))


def _share(number: int, count: int) -> str:
    """Return a count with its share of all.

    >>> _share(0, 10), _share(5, 10)
    ('0', '5 (50 %)')
    """
    return f"{count_text(number)} ({100 * number / count:.3g} %)" if number and count else count_text(number)
