"""Values, heat maps, layers, casts and the overview, as views of `stats`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ckpt_gui import dataclasses
from ckpt_gui.cli.stats_view import View, Work, number
from ckpt_gui.cli.terminal import width
from ckpt_gui.core.errors import Cancelled, CheckpointError
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.plan import Plan
from ckpt_gui.core.tensors import TensorRef
from ckpt_gui.core.text import Line, human_bytes, plural, shown, wrap

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ckpt_gui.core.overview import Overview, Share
    from ckpt_gui.core.tables import Table
    from ckpt_gui.plots import Palette

_ACROSS = 12  # values in a line, at most
_MOST_SHARES = 40


# ------------------------------------------------------------------------------------------------------------- values


def values(plan: Plan, ref: TensorRef, index: str) -> View:
    """Return the values of a part of a tensor."""
    from ckpt_gui.core.tables import values_table
    from ckpt_gui.core.values import read_values

    found = read_values(plan.source, ref, index)
    heading = f"{shown(ref.full_key)}{found.index}   {shown(found.note) or ref.dtype}"
    table = values_table(found)
    lines = [Line(heading, "heading"), *map(Line, _grid(table))]
    value = {
        "key": ref.full_key, "index": str(found.index), "shape": list(found.array.shape),
        "values": found.array.tolist(), "note": found.note,
    }  # fmt: skip
    return View({"values": value}, lines, lambda: table)


def _grid(table: Table) -> list[str]:
    """Return a table of numbers in columns, as many as a line holds."""
    cells = [[_cell(cell) for cell in row] for row in table.rows]
    named = sum(1 for name in table.columns if name.startswith("dim "))
    lines = []
    for left in range(named, len(table.columns), _ACROSS):
        picked = [*range(named), *range(left, min(left + _ACROSS, len(table.columns)))]
        block = [[table.columns[n].removeprefix("dim ") if n >= named else "" for n in picked]]
        block += [[row[n] for n in picked] for row in cells]
        widths = [max(len(row[n]) for row in block) for n in range(len(picked))]
        lines += ["  " + "  ".join(text.rjust(w) for text, w in zip(row, widths, strict=True)) for row in block]
    return lines


def _cell(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def token_row(plan: Plan, token: str) -> tuple[TensorRef, int]:
    """Return the embedding and the row of a token, given by its number, or as it reads (digits then in quotes).

    Raises:
        CheckpointError: There is no embedding, or no such token.
    """
    from ckpt_gui.core.tokens import Vocabulary, vocabulary

    ref = plan.tie.embedding or plan.tie.head
    if ref is None or len(ref.shape) != 2:
        raise CheckpointError("missing-tensor", "There is no embedding here whose rows are tokens.")
    known = vocabulary(plan.source.sidecars.folder)
    row = (known or Vocabulary("", {})).row(token)
    if row is None:
        what = f"is not in {known.origin}" if known else "is no number, and no tokenizer.json lies beside the weights"
        raise CheckpointError("bad-index", f"The token {safe_text(token, 60)!r} {what}.")
    if row >= ref.shape[0]:
        raise CheckpointError("bad-index", f"Token {row:,} lies behind the {ref.shape[0]:,} rows of the embedding.")
    return ref, row


# -------------------------------------------------------------------------------------------- pictures of other kinds


def heat(plan: Plan, ref: TensorRef, work: Work) -> View:
    """Return a tensor as a picture."""
    from ckpt_gui.core.stats import heat_map
    from ckpt_gui.core.tables import heat_table

    found = heat_map(plan.source, ref, progress=work.progress, cancelled=work.stopped)
    blocks = f"{found.mean.shape[0]} × {found.mean.shape[1]} blocks of {found.row_step} × {found.column_step}"
    lines = [Line(f"{shown(ref.full_key)}   {blocks}", "heading")]
    if found.first_bad is not None:
        bad, (rows, columns) = int(found.bad.sum()), found.first_bad
        where = f"rows {rows[0]:,} to {rows[1]:,}, columns {columns[0]:,} to {columns[1]:,}"
        what = f"{plural(bad, 'element')} {'is' if bad == 1 else 'are'} not finite"
        lines.append(Line(f"  {what}, {'in' if bad == 1 else 'the first in'} {where}", "warning"))

    def draw(palette: Palette) -> Figure:
        from ckpt_gui.plots import new_figure
        from ckpt_gui.plots.heat import HeatPlot

        plot = HeatPlot(new_figure(8, 6), palette)
        plot.show(found)
        return plot.figure

    value = {
        "key": ref.full_key, "row_step": found.row_step, "column_step": found.column_step,
        "mean": found.mean.tolist(), "abs_max": found.abs_max.tolist(), "not_finite": found.bad.tolist(),
    }  # fmt: skip
    return View({"heat": value}, lines, lambda: heat_table(found), draw)


def layers(plan: Plan, ref: TensorRef, work: Work) -> View:
    """Return the role of a tensor over the layers."""
    from ckpt_gui.core.scan import roles_of, scan, strip
    from ckpt_gui.core.tables import strip_table

    found = scan(plan, workers=work.workers, progress=work.progress, cancelled=work.stopped, cache=work.cache, like=ref)
    if not found.complete:
        raise Cancelled
    role = next(iter(roles_of(found)), None)
    if role is None:
        text = f"`{safe_text(ref.full_key)}` has no like in other layers."
        raise CheckpointError("missing-tensor", text, key=ref.key)
    line = strip(found, role)
    lines = [Line(shown(role), "heading")]
    for layer, std, abs_max, mean in zip(line.layers, line.std, line.abs_max, line.mean, strict=True):
        lines.append(Line(f"  {layer:>4}   std {std:<12.6g} abs max {abs_max:<12.6g} mean {mean:.6g}"))

    def draw(palette: Palette) -> Figure:
        from ckpt_gui.plots import StripPlot, new_figure

        plot = StripPlot(new_figure(8, 6), palette)
        plot.show(line)
        return plot.figure

    return View({"layers": dataclasses.asdict(line)}, lines, lambda: strip_table(line), draw)


def cast(plan: Plan, ref: TensorRef, target: str, work: Work) -> View:
    """Return what a cast would do to a tensor."""
    from ckpt_gui.core.stats import cast_stats
    from ckpt_gui.core.tables import cast_table

    found = cast_stats(plan.source, ref, target, progress=work.progress, cancelled=work.stopped)
    lines = [
        Line(f"{shown(ref.full_key)}   {found.dtype} → {found.target}", "heading"),
        Line(
            f"  {found.changed:,} of {plural(found.count, 'element')} {'changes' if found.changed == 1 else 'change'}"
        ),
        Line(f"  largest difference {number(found.max_error)}, relative {number(found.max_relative)}"),
    ]
    lines += [Line(f"  {found.vanished:,} become zero", "warning")] if found.vanished else []
    lines += [Line(f"  {found.overflow:,} become infinite", "warning")] if found.overflow else []

    def draw(palette: Palette) -> Figure:
        from ckpt_gui.plots import CastPlot, new_figure

        plot = CastPlot(new_figure(), palette)
        plot.show_cast(found)
        return plot.figure

    return View({"cast": dataclasses.asdict(found)}, lines, lambda: cast_table(found), draw)


# ----------------------------------------------------------------------------------------------------------- overview


def overview(plan: Plan) -> View:
    """Return what the headers tell in numbers."""
    from ckpt_gui.core.overview import overview as of_plan

    found = of_plan(plan)

    def table() -> Table:
        from ckpt_gui.core.tables import overview_table

        return overview_table(found)

    value = dataclasses.asdict(found) | {
        "largest": [_named(ref) for ref in found.largest],
        "smallest": [_named(ref) for ref in found.smallest],
    }
    return View({"overview": value}, list(_overview_lines(found)), table)


def _named(ref: TensorRef) -> dict[str, Any]:
    return {"key": ref.full_key, "dtype": ref.dtype, "shape": list(ref.shape), "bytes": ref.nbytes}


def _overview_lines(found: Overview) -> Iterator[Line]:
    text = f"{plural(found.tensors, 'tensor')}, {found.parameters:,} parameters, {human_bytes(found.nbytes)}"
    if found.parameters_stored != found.parameters:
        text += f"; {found.parameters_stored:,} parameters with every alias counted"
    yield from (Line(line) for line in wrap(f"{text}.", width()))
    shares = (
        ("Parts", found.by_part), ("Types", found.by_dtype), ("Roles", found.by_role), ("Layers", found.by_layer),
        ("Experts", found.by_expert),
    )  # fmt: skip
    for title, some in shares:
        yield from _share_lines(title, some, max(found.parameters, 1))
    yield Line("")
    yield Line("Largest tensors", "heading")
    for ref in found.largest:
        yield Line(f"  {human_bytes(ref.nbytes):>10}   {shown(ref.full_key)}   {' × '.join(map(str, ref.shape))}")
    yield Line("")
    yield Line("Files", "heading")
    for file in found.files:
        sparse = file.on_disk is not None and file.on_disk < file.size - 4096
        disk = f", {human_bytes(file.on_disk or 0)} on the disk" if sparse else ""
        holds = f"{plural(file.tensors, 'tensor')} of {human_bytes(file.nbytes)}"
        yield Line(f"  {human_bytes(file.size):>10}   {shown(file.name)}   {holds}{disk}")
    yield Line("")
    yield Line("Memory for the weights alone", "heading")
    for load in found.loads:
        yield Line(f"  {human_bytes(load.nbytes):>10}   {load.name:<6} {load.note}")


def _share_lines(title: str, shares: tuple[Share, ...], parameters: int) -> Iterator[Line]:
    if not shares:
        return
    yield Line("")
    yield Line(title, "heading")
    for share in shares[:_MOST_SHARES]:
        percent = f"{100 * share.parameters / parameters:.1f} %"
        yield Line(f"  {percent:>7}  {share.parameters:>17,}  {human_bytes(share.nbytes):>10}   {shown(share.name)}")
    if len(shares) > _MOST_SHARES:
        yield Line(f"  … and {len(shares) - _MOST_SHARES:,} more", "quiet")
