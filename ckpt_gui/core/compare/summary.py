"""What has changed, by role and by layer: what did the fine-tune touch?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ckpt_gui.core.compare.result import Row
from ckpt_gui.core.keys import indices, natural, template
from ckpt_gui.dataclasses import dataclass

ENDS = (0.0, 0.25, 0.5, 0.75, 1.0)
_STILL = ("equal", "cast", "tied")  # values compared, and the same


@dataclass(frozen=True, slots=True)
class Change:
    """How much of the tensors of one role or one layer has changed.

    Attributes:
        name: The role (`model.layers.N.mlp.up_proj.weight`) or the layer (`model.layers.3`).
        tensors: How many there are, on either side.
        different: How many of them are not the same.
        relative: Smallest, first quartile, median, third quartile and largest ‖Δ‖/‖W‖ of those that were measured,
            equal ones being 0; empty if none was.
        share: Share of the elements that have changed, of those that were compared; None if none was.
    """

    name: str
    tensors: int
    different: int
    relative: tuple[float, ...] = ()
    share: float | None = None


def by_role(rows: Iterable[Row]) -> tuple[Change, ...]:
    """Return the changes of tensors that stand at the same place in their layers, in natural order."""
    return _changes(rows, role)


def by_layer(rows: Iterable[Row]) -> tuple[Change, ...]:
    """Return the changes of whole layers, in natural order; what stands outside of layers is left out."""
    return _changes(rows, layer)


def role(key: str) -> str:
    """Return a key with its numbers taken out.

    >>> role("model.layers.3.mlp.up_proj.weight")
    'model.layers.N.mlp.up_proj.weight'
    """
    return template(key).format(*("N" for _ in indices(key)))


def layer(key: str) -> str:
    """Return the part of a key that names its layer; empty for a tensor outside of layers.

    >>> layer("model.layers.3.mlp.experts.5.up_proj.weight"), layer("lm_head.weight")
    ('model.layers.3', '')
    """
    numbers = indices(key)
    if not numbers:
        return ""
    before = template(key).partition("{}")[0].replace("{{", "{").replace("}}", "}")
    return f"{before}{numbers[0]}"


def _changes(rows: Iterable[Row], name_of: Callable[[str], str]) -> tuple[Change, ...]:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        if name := name_of(row.key):
            groups.setdefault(name, []).append(row)
    return tuple(_change(name, groups[name]) for name in sorted(groups, key=natural))


def _change(name: str, rows: Sequence[Row]) -> Change:
    found = [r.delta.relative for r in rows if r.delta and r.delta.relative is not None]
    found += [0.0 for r in rows if r.state in _STILL]
    counted = [(r.delta.changed, r.delta.count) for r in rows if r.delta]
    counted += [(0, _numel(r)) for r in rows if r.state in _STILL]
    total = sum(count for _, count in counted)
    share = sum(changed for changed, _ in counted) / total if total else None
    different = sum(1 for r in rows if not r.is_same and r.state != "unread")
    return Change(name, len(rows), different, quantiles(found), share)


def _numel(row: Row) -> int:
    count = 1
    for size in row.a.shape if row.a else ():
        count *= size or 0
    return count


def quantiles(values: Iterable[float]) -> tuple[float, ...]:
    """Return the quantiles at `ENDS`, between neighbours in proportion; nothing of nothing.

    >>> quantiles([4.0, 1.0, 2.0, 3.0, 5.0])
    (1.0, 2.0, 3.0, 4.0, 5.0)
    """
    order = sorted(values)
    if not order:
        return ()
    found = []
    for end in ENDS:
        place = end * (len(order) - 1)
        low = int(place)
        high = min(low + 1, len(order) - 1)
        found.append(order[low] + (order[high] - order[low]) * (place - low))
    return tuple(found)
