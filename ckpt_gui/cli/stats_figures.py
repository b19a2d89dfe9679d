"""The figures of tensors and of pairs, as views of `stats`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ckpt_gui import dataclasses
from ckpt_gui.cli.stats_view import View, Work, number
from ckpt_gui.cli.terminal import width
from ckpt_gui.core.plan import Plan
from ckpt_gui.core.tensors import TensorRef
from ckpt_gui.core.text import Line, plural, shown, wrap

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ckpt_gui.core.stats import PairStats, TensorStats
    from ckpt_gui.core.tables import Table
    from ckpt_gui.plots import Palette

_FIGURES = ("min", "max", "mean", "std", "l2", "abs_max")
_TIED = "\u00a0"  # in place of a blank where a line may not be broken
_COUNTED = {
    "zeros": "zero", "neg_zeros": "of them −0", "subnormals": "subnormal", "nan": "NaN", "pos_inf": "+∞",
    "neg_inf": "−∞",
}  # fmt: skip


# ------------------------------------------------------------------------------------------------------------ tensors


def tensors(plan: Plan, refs: Sequence[TensorRef], work: Work, *, bins: int = 0) -> View:
    """Return the figures of tensors; with bins and one tensor, its histogram as the table and picture."""
    from ckpt_gui.core.packed import by_name, packed
    from ckpt_gui.core.stats import many_stats
    from ckpt_gui.core.tables import figures_table, histogram_table

    found = many_stats(
        plan.source, refs, bins=bins, workers=work.workers, progress=work.progress, cancelled=work.stopped,
        cache=work.cache,
    )  # fmt: skip
    lines, names = [], by_name(plan.source)
    for ref, figures in zip(refs, found, strict=True):
        lines += _one(figures)
        if (view := packed(plan.source, ref, names)) is not None:
            lines.append(Line(f"  these are figures of what is stored; --values shows it {shown(view.note)}", "quiet"))
    value = {"tensors": [dataclasses.asdict(figures) for figures in found]}
    if len(found) != 1:
        return View(value, lines, lambda: figures_table(found))
    (stats,) = found

    def table() -> Table:
        return histogram_table([stats.key], [stats.histogram]) if stats.histogram else figures_table(found)

    def draw(palette: Palette) -> Figure:
        from ckpt_gui.plots import HistogramPlot, HistogramSide, new_figure

        plot = HistogramPlot(new_figure(), palette)
        plot.show((HistogramSide.of(stats.dtype, stats),), stats.key)
        return plot.figure

    return View(value, lines, table, draw)


def _one(figures: TensorStats) -> list[Line]:
    """Return the lines of one tensor: its name, and its figures under it."""
    shape = " × ".join(f"{size:,}" for size in figures.shape) or "a single number"
    lines = [Line(f"{shown(figures.key)}   {figures.dtype}   {shape}", "heading")]
    if figures.reason:
        return [*lines, Line(f"  {shown(figures.reason)}", "quiet")]
    numbers = [(name, getattr(figures, name)) for name in _FIGURES]
    text = "   ".join(f"{name.replace('_', ' ')} {number(value)}" for name, value in numbers if value is not None)
    lines.append(Line(f"  {text or 'no finite element'}"))
    if figures.quantiles:
        pairs = (f"{100 * share:g} % {number(value)}".replace(" ", _TIED) for share, value in figures.quantiles)
        text = f"quantiles   {'   '.join(pairs)}"
        lines += [
            Line(line.replace(_TIED, " ").rstrip(), "quiet") for line in wrap(text, width(), first="  ", rest="    ")
        ]
        lines += [] if figures.exact else [Line(f"    {figures.caption}", "quiet")]
    found = ((getattr(figures, name), word) for name, word in _COUNTED.items())
    counted = ", ".join(f"{count:,} {word}" for count, word in found if count)
    if counted:
        bad = figures.nan or figures.pos_inf or figures.neg_inf
        lines.append(Line(f"  of {plural(figures.count, 'element')}: {counted}", "warning" if bad else "quiet"))
    if figures.distinct is not None and figures.count > 1:
        lines.append(Line(f"  {figures.distinct:,} distinct finite values", "quiet"))
    if figures.fits:
        lines.append(Line(f"  {' and '.join(figures.fits)} would hold every element exactly", "quiet"))
    return lines


# --------------------------------------------------------------------------------------------------------------- pair


def pair(plan: Plan, a: TensorRef, b: TensorRef, work: Work) -> View:
    """Return two tensors compared; rows that differ by token where the rows are those of a vocabulary."""
    from ckpt_gui.core.stats import pair_stats
    from ckpt_gui.core.tables import pair_table

    found = pair_stats(plan.source, a, b, progress=work.progress, cancelled=work.stopped, cache=work.cache)
    style: Any = "warning" if found.relation == "different" else "good"
    lines = [Line(text, style) for text in wrap(f"{a.key} and {b.key}: {found.text}.", width())]
    if found.differing and found.max_diff is not None:
        lines += [Line(f"  {text}") for text in _differences(found)]
    lines += [Line(text) for text in _rows(plan, found)]

    def draw(palette: Palette) -> Figure:
        from ckpt_gui.plots import PairPlot, new_figure

        plot = PairPlot(new_figure(8, 6), palette)
        plot.show_pair(found, (a.key, b.key))
        return plot.figure

    value = {"pair": dataclasses.asdict(found)}
    return View(value, [*lines, *_one(found.a), *_one(found.b)], lambda: pair_table(found, (a.key, b.key)), draw)


def _differences(found: PairStats) -> list[str]:
    odd = any(side.nan or side.pos_inf or side.neg_inf for side in (found.a, found.b))
    if found.max_diff == 0 and found.max_ulp == 0 and not odd:
        return ["equal as numbers: only zeros differ, in their sign"]
    largest = f"largest difference {number(found.max_diff or 0.0)}"
    if found.where is not None:
        largest += f" at row {found.where[0]:,}, column {found.where[1]:,}"
    texts = [largest]
    for name, value in (("mean difference", found.mean_diff), ("relative to the first, ‖Δ‖/‖a‖", found.relative)):
        texts += [f"{name} {number(value)}"] if value is not None else []
    for name, value in (("cosine", found.cosine), ("correlation", found.correlation)):
        texts += [f"{name} {value:.9f}"] if value is not None else []
    if found.sign_flips:
        texts.append(
            f"{plural(found.sign_flips, 'element')} {'changes its' if found.sign_flips == 1 else 'change their'} sign"
        )
    if found.max_ulp is not None:
        texts.append(f"at most {found.max_ulp:,} steps from one {found.a.dtype} number to the next")
    return texts


def _rows(plan: Plan, found: PairStats) -> list[str]:
    rows = found.rows
    if not rows.differing or len(found.a.shape) < 2:
        return []
    if rows.differing == found.a.shape[0]:
        return ["  every row differs"]
    words = _tokens(plan, rows.first[:20], found.a.shape[0])
    more = ", …" if rows.differing > 20 else ""
    text = f"{rows.differing:,} of {found.a.shape[0]:,} rows differ: {', '.join(words)}{more}"
    return wrap(text, width(), first="  ", rest="    ")


def _tokens(plan: Plan, rows: Sequence[int], count: int) -> list[str]:
    """Return numbers of rows, with their tokens where a vocabulary says what a row of so many is."""
    from ckpt_gui.core.tokens import vocabulary

    known = vocabulary(plan.source.sidecars.folder) if count == plan.dims.get("vocab") else None
    names = (known.name(row) if known else None for row in rows)
    return [f"{row:,}" if name is None else f"{row:,} “{name}”" for row, name in zip(rows, names, strict=True)]
