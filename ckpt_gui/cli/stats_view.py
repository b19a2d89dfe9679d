"""What every view of `stats` is: JSON, lines, a table and a picture of the same numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ckpt_gui.cli.terminal import Progress, Stop
from ckpt_gui.core.cores import WORKERS
from ckpt_gui.core.text import Line
from ckpt_gui.dataclasses import dataclass

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ckpt_gui.core.stats import StatsCache
    from ckpt_gui.core.tables import Table
    from ckpt_gui.plots import Palette


@dataclass(frozen=True, slots=True)
class View:
    """Some numbers, in every form that is asked for.

    Attributes:
        value: As JSON.
        lines: For people.
        table: For CSV, made when it is wanted.
        draw: Draws them in a palette; None where there is no picture of them.
    """

    value: dict[str, Any]
    lines: list[Line]
    table: Callable[[], Table]
    draw: Callable[[Palette], Figure] | None = None


@dataclass(frozen=True, slots=True)
class Work:
    """How the work is done.

    Attributes:
        progress: Called with a label, bytes done and bytes in all.
        stopped: Asked between blocks.
        cache: Where counts are kept; None for nowhere.
        workers: Threads.
    """

    progress: Progress | None
    stopped: Stop
    cache: StatsCache | None
    workers: int = WORKERS


def number(value: float) -> str:
    """Return a figure with six digits that matter, a whole number in full."""
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}"
