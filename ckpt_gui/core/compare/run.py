"""Compare two checkpoints, from paths or from plans: one way for `diff`, for `check --against` and for the window."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from ckpt_gui.core.compare.configs import config_differences
from ckpt_gui.core.compare.matching import match
from ckpt_gui.core.compare.result import Comparison, Row, Side
from ckpt_gui.core.compare.sides import side_of_config, side_of_known, side_of_plan
from ckpt_gui.core.cores import WORKERS
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.families.known import find_known
from ckpt_gui.core.families.schema import Family
from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.formats.sidecars import read_sidecars
from ckpt_gui.core.meta_config import read_params
from ckpt_gui.core.model_config import read_config
from ckpt_gui.core.normalise import understand

if TYPE_CHECKING:
    from ckpt_gui.core.compare.blocks import Asked
    from ckpt_gui.core.compare.values import Found, Progress


def is_checkpoint(path: str) -> bool:
    """Return True for a path that is opened, False for a config and for a published model's name."""
    return "://" in path or (os.path.exists(path) and not (path.endswith(".json") and not path.endswith(".index.json")))


def side_of_name(name: str, like: Family | None = None) -> Side:
    """Return what a config.json or params.json, or the name of a published model, tells as a side.

    Args:
        name: Path or name.
        like: The family of the other side, where a config names none.

    Raises:
        CheckpointError: There is no such thing, or it can not be read.
    """
    if not os.path.exists(name):
        return side_of_known(find_known(name))
    sidecars = read_sidecars(os.path.dirname(name) or ".", name)[0]
    config = read_config(sidecars.config) if sidecars.config else read_params(sidecars.params or {})
    return side_of_config(config, name, like)


@contextmanager
def opened_sides(
    one: str, two: str, *, values: bool = False, progress: Progress | None = None, cancelled: Asked | None = None
) -> Iterator[tuple[Side, Side]]:
    """Open two checkpoints, configs or published models for a comparison; close them at the end.

    Args:
        one: A.
        two: B.
        values: True if values will be compared: then the bytes of tied pairs are, too.
        progress: Called with a label, bytes done and bytes in all.
        cancelled: Asked between blocks.

    Raises:
        CheckpointError: One of them can not be read.
    """
    with ExitStack() as stack:
        sides: list[Side | None] = [None, None]
        for i, path in enumerate((one, two)):
            if is_checkpoint(path):
                source = stack.enter_context(open_checkpoint(path, progress=progress))
                plan = understand(source, budget=None if values else 0, progress=progress, cancelled=cancelled)
                sides[i] = side_of_plan(plan, path)
        like = next((side.family for side in sides if side is not None), None)
        a, b = (
            side_of_name(path, like) if side is None else side for side, path in zip(sides, (one, two), strict=True)
        )
        yield a, b


def compare(
    a: Side,
    b: Side,
    *,
    values: bool = False,
    measured: bool = True,
    budget: int | None = None,
    workers: int = WORKERS,
    progress: Progress | None = None,
    cancelled: Asked | None = None,
    found: Found | None = None,
    begun: Sequence[Row] | None = None,
) -> Comparison:
    """Compare two sides.

    Args:
        a: The older, or the base.
        b: The newer.
        values: True to compare values, too; where one side is a config there are none.
        measured: True to measure how far apart different tensors are.
        budget: Bytes of values that may be read at most.
        workers: Threads.
        progress: Called with a label, bytes done and bytes in all.
        cancelled: Asked before each block: what is not compared by then is `unread`, and the result says `stopped`.
        found: Called with the number of a row and the row when its values are compared, by one thread at a time.
        begun: The rows of an earlier comparison without values: their numbers are those that `found` gets.

    Returns:
        The comparison. Reading of values that fails makes a row `unread`, with the reason.
    """
    rows = match(a, b) if begun is None else tuple(begun)
    config = config_differences(a, b)
    if not values or a.plan is None or b.plan is None:
        return Comparison(a, b, rows, config=config)
    from ckpt_gui.core.compare.values import Wanted, compare_values  # numpy only where values are wanted

    wanted = Wanted(measured, budget, workers, progress, cancelled, found)
    done, stopped = compare_values(a, b, rows, wanted)
    return Comparison(a, b, done, True, stopped, config)


def with_ranks(
    compared: Comparison,
    rows: Sequence[Row],
    *,
    progress: Progress | None = None,
    cancelled: Asked | None = None,
) -> Comparison:
    """Return a comparison with the ranks of the changes of some rows estimated.

    Raises:
        CheckpointError: One of them is no change of a matrix, or can not be read.
        Cancelled: `cancelled` said so.
    """
    from ckpt_gui.core.compare.pairing import Sides
    from ckpt_gui.core.compare.rank import rank_estimate

    if compared.a.plan is None or compared.b.plan is None:
        raise CheckpointError("values-unchecked", "Ranks need the values of two checkpoints; one of these has none.")
    sides = Sides(compared.a, compared.b)
    made = tuple(rank_estimate(sides, row, progress=progress, cancelled=cancelled) for row in rows)
    return compared.replace(ranks=(*compared.ranks, *made))
