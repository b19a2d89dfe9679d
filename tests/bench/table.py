"""The table, for a terminal or as markdown for the README: figures are pasted, not typed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tests.bench.lines import Line

HEAD = ("row", "what", "ours", "peer", "judged", "spread", "aim", "", "processor, ours / peer", "our peak")
WIDEST = 76  # of a cell in a terminal


def markdown(table: Sequence[Line]) -> str:
    """Return the table as markdown, with what could not be measured below it."""
    rows = [HEAD[1:], ("---",) * (len(HEAD) - 1), *(cells(line)[1:] for line in table if line.judged)]
    return "\n".join(["| " + " | ".join(row) + " |" for row in rows] + [*_left_out(table)])


def plain(table: Sequence[Line]) -> str:
    """Return the table in columns for a terminal."""
    rows = [HEAD, *(cells(line) for line in table if line.judged)]
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lined = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([*lined, *_left_out(table)])


def cells(line: Line) -> tuple[str, ...]:
    """Return the cells of a line that was measured."""
    assert line.judged is not None
    unit = line.unit if line.compared != "ratio" else "×"
    scale = 1000 if _in_ms(line.judged.median, unit) else 1
    between = " – ".join(_short(scale * value) for value in (line.judged.least, line.judged.most))
    return (
        line.name, line.title, figure(line.ours, line.unit), figure(line.peer, line.unit),
        _judged(line, line.judged.median, unit), between if line.rounds > 1 else "one run",
        "–" if line.limit is None else f"≤ {_judged(line, line.limit, unit)}",
        {True: "met", False: "MISSED", None: ""}[line.met], _both(line.cpu), figure(line.peaks[0], "MiB"),
    )  # fmt: skip


def figure(value: float | None, unit: str) -> str:
    """Return a figure with its unit, or a dash; a time under a tenth of a second is told in milliseconds."""
    if value is None:
        return "–"
    if _in_ms(value, unit):
        value, unit = 1000 * value, "ms"
    return f"{_short(value)} {unit}".rstrip()


def _in_ms(value: float, unit: str) -> bool:
    return unit == "s" and value < 0.1


def _judged(line: Line, value: float, unit: str) -> str:
    sign = "+" if line.compared == "more" and value >= 0 else ""
    return sign + (figure(value, unit) if unit != "×" else f"{_short(value)} ×")


def _short(value: float) -> str:
    """Return three digits of a figure, and all of a large one."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _both(cpu: tuple[float | None, float | None]) -> str:
    ours, peer = cpu
    return figure(ours, "s") if peer is None else f"{figure(ours, 's')} / {figure(peer, 's')}"


def _left_out(table: Sequence[Line]) -> Iterator[str]:
    """Yield what could not be measured, a reason a line."""
    missing: dict[str, list[str]] = {}
    for line in table:
        if line.judged is None:
            missing.setdefault(line.missing, []).append(f"`{line.name}`")
    if missing:
        yield "\nNot measured:\n"
    for reason, names in missing.items():
        yield f"- {', '.join(names)}: {reason}"
