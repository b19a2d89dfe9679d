"""Small pictures as SVG, made here: bars and histograms that follow the light or dark of the page they stand in."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence

from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.text import Figure

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 760, 220, 70, 34, 12
MOST_BARS = 400
MOST_LABELS = 16


def bars(caption: str, labels: Sequence[str], values: Sequence[float]) -> Figure | None:
    """Return one bar a value, all 0 or above, on a scale from 0; None if there is nothing above 0.

    Args:
        caption: What is shown.
        labels: What each bar is.
        values: How high it is.
    """
    top = max(values, default=0.0)
    if not 0 < top < math.inf or len(values) > MOST_BARS:
        return None
    step = (WIDTH - LEFT) / len(values)
    parts = [_axis(top)]
    for number, (label, value) in enumerate(zip(labels, values, strict=True)):
        height = value / top * (HEIGHT - TOP - BOTTOM)
        x, y = LEFT + number * step, HEIGHT - BOTTOM - height
        title = f"<title>{_text(label)}: {value:.3g}</title>"
        parts.append(
            f'<rect x="{x + step * 0.1:.1f}" y="{y:.1f}" width="{step * 0.8:.1f}" height="{height:.1f}" '
            f'fill="var(--info)">{title}</rect>'
        )
    every = -(-len(labels) // MOST_LABELS)
    for number, label in list(enumerate(labels))[::every]:
        x = LEFT + (number + 0.5) * step
        parts.append(_label(x, HEIGHT - BOTTOM + 18, label, "middle"))
    return Figure(_svg(parts, caption), caption)


def histograms(
    caption: str, edges: Sequence[float], names: tuple[str, str], counts: tuple[Sequence[int], Sequence[int]]
) -> Figure | None:
    """Return two histograms over each other, counts on a logarithmic scale; None if nothing was counted.

    Args:
        caption: What is shown.
        edges: The borders of the bins.
        names: What the two are called.
        counts: How many elements lie in each bin, for both.
    """
    most = max((max(c, default=0) for c in counts), default=0)
    if not most or len(edges) < 2:
        return None
    top = math.log10(most + 1)
    parts = [_label(LEFT - 8, TOP + 10, f"{most:,}", "end"), _label(LEFT - 8, HEIGHT - BOTTOM, "0", "end")]
    for colour, name, row, place in zip(("--info", "--warning"), names, counts, (TOP + 10, TOP + 28), strict=True):
        steps = _steps(row, top)
        parts.append(f'<path d="{steps}" fill="none" stroke="var({colour})" stroke-width="1.5"/>')
        parts.append(f'<text x="{WIDTH - 6}" y="{place}" fill="var({colour})" {_FONT} text-anchor="end">')
        parts.append(f"{_text(name)}</text>")
    parts.append(_label(LEFT, HEIGHT - BOTTOM + 18, f"{edges[0]:.3g}", "start"))
    parts.append(_label(WIDTH, HEIGHT - BOTTOM + 18, f"{edges[-1]:.3g}", "end"))
    return Figure(_svg(parts, caption), caption)


def _steps(row: Sequence[int], top: float) -> str:
    size = (WIDTH - LEFT) / len(row)
    points = []
    for number, count in enumerate(row):
        y = HEIGHT - BOTTOM - math.log10(count + 1) / top * (HEIGHT - TOP - BOTTOM)
        points += [f"{LEFT + number * size:.1f},{y:.1f}", f"{LEFT + (number + 1) * size:.1f},{y:.1f}"]
    return "M" + " L".join(points)


_FONT = 'font-family="system-ui, sans-serif" font-size="12"'


def _axis(top: float) -> str:
    base = HEIGHT - BOTTOM
    line = f'<path d="M{LEFT},{base} H{WIDTH} M{LEFT},{TOP} H{WIDTH}" stroke="var(--line)" fill="none"/>'
    return line + _label(LEFT - 8, TOP + 4, f"{top:.3g}", "end") + _label(LEFT - 8, base + 4, "0", "end")


def _label(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="var(--soft)" {_FONT} text-anchor="{anchor}">{_text(text)}</text>'


def _text(text: str) -> str:
    return html.escape(safe_text(text, 60))


def _svg(parts: Sequence[str], caption: str) -> str:
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{_text(caption)}"'
    return f"<svg {size}>{''.join(parts)}</svg>"
