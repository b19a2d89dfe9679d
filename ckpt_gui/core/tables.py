"""The numbers behind a picture as a table, and a table as CSV: what a plot shows can be taken elsewhere.

A text cell that a spreadsheet would take for a formula gets an apostrophe in front: names come from files of strangers.
"""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Iterable, Sequence
from typing import Any

from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.overview import Overview
from ckpt_gui.core.scan import Scan, Strip
from ckpt_gui.core.stats import CastStats, HeatMap, Histogram, PairStats, RowDifferences, TensorStats
from ckpt_gui.core.values import Values
from ckpt_gui.dataclasses import dataclass

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_FIGURES = (
    "count", "min", "max", "mean", "std", "l2", "abs_max", "zeros", "neg_zeros", "subnormals", "nan", "pos_inf",
    "neg_inf", "distinct", "exact",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under names of columns.

    Attributes:
        columns: The names.
        rows: Texts, numbers, or None for an empty cell.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


def csv_text(table: Table) -> str:
    """Return a table as CSV (RFC 4180, but lines end with a newline alone); numbers come out with all their digits."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(map(_cell, table.columns))
    writer.writerows(map(_cell, row) for row in table.rows)
    return out.getvalue()


def _cell(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    text = safe_text(value, 4000)
    return f"'{text}" if text.startswith(_FORMULA) else text


def figures_table(stats: Iterable[TensorStats]) -> Table:
    """Return the figures of tensors, a row each, with the quantiles that the first of them has."""
    found = tuple(stats)
    shares = next((tuple(share for share, _ in s.quantiles) for s in found if s.quantiles), ())
    rows = []
    for s in found:
        quantiles = dict(s.quantiles)
        shape = " × ".join(map(str, s.shape))
        rows.append(
            (s.key, s.dtype, shape, *(getattr(s, name) for name in _FIGURES), *(quantiles.get(q) for q in shares))
        )
    return Table(("key", "dtype", "shape", *_FIGURES, *(f"q{share:g}" for share in shares)), tuple(rows))


def histogram_table(names: Sequence[str], histograms: Sequence[Histogram]) -> Table:
    """Return histograms over the same borders, a row a bin."""
    edges = histograms[0].edges if histograms else ()
    counts = zip(*(h.counts for h in histograms), strict=True)
    rows = ((low, high, *each) for low, high, each in zip(edges, edges[1:], counts, strict=False))
    return Table(("from", "to", *names), tuple(rows))


def pair_table(pair: PairStats, names: tuple[str, str]) -> Table:
    """Return both histograms of a pair."""
    return histogram_table(names, [Histogram(pair.edges, counts) for counts in (pair.hist_a, pair.hist_b)])


def rows_table(rows: RowDifferences) -> Table:
    """Return the differences by row."""
    return Table(("row", "mean |Δ|"), tuple(zip(rows.rows, rows.values, strict=True)))


def strip_table(strip: Strip) -> Table:
    """Return a role over the layers."""
    columns = (strip.layers, strip.keys, strip.std, strip.abs_max, strip.mean)
    return Table(("layer", "key", "std", "abs_max", "mean"), tuple(zip(*columns, strict=True)))


def scan_table(scan: Scan) -> Table:
    """Return the figures of every tensor of a model."""
    return figures_table(t.stats for t in scan.tensors)


def heat_table(found: HeatMap) -> Table:
    """Return the blocks of a heat map, a row each."""
    rows = []
    for r, (means, largest, bad) in enumerate(
        zip(found.mean.tolist(), found.abs_max.tolist(), found.bad.tolist(), strict=True)
    ):
        row = found.rows[0] + r * found.row_step
        for c, block in enumerate(zip(means, largest, bad, strict=True)):
            rows.append((row, found.columns[0] + c * found.column_step, *block))
    return Table(("row", "column", "mean", "abs_max", "not finite"), tuple(rows))


def overview_table(found: Overview) -> Table:
    """Return all shares of a model under each other."""
    kinds = {
        "part": found.by_part, "type": found.by_dtype, "role": found.by_role, "layer": found.by_layer,
        "expert": found.by_expert,
    }  # fmt: skip
    rows = [(kind, s.name, s.tensors, s.parameters, s.nbytes) for kind, shares in kinds.items() for s in shares]
    return Table(("kind", "name", "tensors", "parameters", "bytes"), tuple(rows))


def cast_table(found: CastStats) -> Table:
    """Return magnitudes before and after a cast."""
    rows = zip(found.exponents, found.before, found.after, strict=False)
    return Table(("power of two", found.dtype, found.target), tuple(rows))


def values_table(values: Values) -> Table:
    """Return a part of a tensor as a grid: its last kept dimension across, the others down."""
    axes = [axis for axis, kept in zip(values.index.axes, values.index.kept, strict=True) if kept]
    across = [str(n) for n in axes[-1]] if axes else ["value"]
    flat = values.array.reshape(-1, max(len(across), 1)) if values.array.size else values.array.reshape(0, len(across))
    down = itertools.product(*axes[:-1])
    rows = ((*corner, *line.tolist()) for corner, line in zip(down, flat, strict=False))
    return Table((*(f"dim {n}" for n in range(len(axes) - 1)), *across), tuple(rows))
