"""The pictures of the plots page: each knows what to work out, how to draw it, and which table lies behind it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.plan import Plan
from ckpt_gui.core.scan import Strip, roles_of, scan, strip
from ckpt_gui.core.stats import StatsCache, cast_stats, heat_map, tensor_stats
from ckpt_gui.core.tables import Table, cast_table, heat_table, histogram_table, strip_table
from ckpt_gui.core.tensors import TensorRef
from ckpt_gui.dataclasses import dataclass
from ckpt_gui.gui.jobs import Job
from ckpt_gui.gui.wording import capital
from ckpt_gui.plots import CastPlot, HistogramPlot, HistogramSide, Plot, StripPlot
from ckpt_gui.plots.heat import HeatPairPlot

if TYPE_CHECKING:
    from ckpt_gui.core.stats import TensorStats

BINS = 512
Ask = Callable[[Plan, TensorRef, str, Job], Any]


@dataclass(frozen=True, slots=True)
class PlotView:
    """A kind of picture.

    Attributes:
        name: Stable name.
        title: What its button says.
        tip: What its tool tip says.
        make: Class of the plot.
        work: Works out what it shows, in a job: plan, tensor, option, job.
        draw: Gives it to the plot: plot, result, tensor.
        table: The numbers behind it.
    """

    name: str
    title: str
    tip: str
    make: type[Plot]
    work: Ask
    draw: Callable[[Any, Any, TensorRef], None]
    table: Callable[[Any], Table]


def _distribution(plan: Plan, ref: TensorRef, _: str, job: Job) -> TensorStats:
    found = tensor_stats(
        plan.source, ref, bins=BINS, progress=job.progress, cancelled=job.cancelled, cache=StatsCache()
    )
    if found.reason:
        raise CheckpointError("unknown-layout", found.reason, key=ref.key)
    return found


def _draw_distribution(plot: HistogramPlot, found: TensorStats, ref: TensorRef) -> None:
    plot.show((HistogramSide.of(found.dtype, found),), capital(found.caption))


def _distribution_table(found: TensorStats) -> Table:
    return histogram_table([found.key], [found.histogram] if found.histogram else [])


def _heat(plan: Plan, ref: TensorRef, _: str, job: Job) -> Any:
    return heat_map(plan.source, ref, progress=job.progress, cancelled=job.cancelled)


def _layers(plan: Plan, ref: TensorRef, _: str, job: Job) -> Strip:
    found = scan(
        plan, workers=job.workers, progress=job.progress, cancelled=job.cancelled, cache=StatsCache(), like=ref
    )
    if not roles_of(found):
        text = "This tensor has no like in other layers."
        raise CheckpointError("missing-tensor", text, fix="Choose one that every layer has.", key=ref.key)
    return strip(found, roles_of(found)[0])


def _cast(plan: Plan, ref: TensorRef, target: str, job: Job) -> Any:
    return cast_stats(plan.source, ref, target, progress=job.progress, cancelled=job.cancelled)


VIEWS: tuple[PlotView, ...] = (
    PlotView(
        "distribution", "&Distribution", "How often which values occur, counts on a log scale", HistogramPlot,
        _distribution, _draw_distribution, _distribution_table,
    ),
    PlotView(
        "heat", "Heat &map", "Means and largest magnitudes of blocks; zoom in until single values are seen",
        HeatPairPlot, _heat, lambda plot, found, _: plot.show(found), heat_table,
    ),
    PlotView(
        "layers", "&Layers", "The same matrix in every layer: deviation, largest magnitude, mean", StripPlot,
        _layers, lambda plot, found, _: plot.show(found), strip_table,
    ),
    PlotView(
        "cast", "Cast", "What a cast would change, make zero, or let overflow", CastPlot,
        _cast, lambda plot, found, _: plot.show_cast(found), cast_table,
    ),
)  # fmt: skip
