"""Pictures for reports, made of statistics: the pair of embedding and head, two tensors, roles over the layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.report.figures import bars, histograms
from ckpt_gui.core.text import Figure

if TYPE_CHECKING:
    from ckpt_gui.core.compare import Comparison
    from ckpt_gui.core.plan import Plan
    from ckpt_gui.core.scan import Scan
    from ckpt_gui.core.stats import PairStats

Progress = Callable[[str, int, int], None]
MOST_STRIPS = 12


def tied_picture(plan: Plan, *, budget: int | None = None, progress: Progress | None = None) -> tuple[Figure, ...]:
    """Return the histograms of embedding and head where the two differ; nothing where they do not or it is too much."""
    tie = plan.tie
    if tie.state != "different" or tie.embedding is None or tie.head is None or tie.embedding.shape != tie.head.shape:
        return ()
    if budget is not None and tie.embedding.nbytes + tie.head.nbytes > budget:
        return ()
    from ckpt_gui.core.stats import pair_stats

    try:
        return _pair(pair_stats(plan.source, tie.embedding, tie.head, progress=progress))
    except CheckpointError:  # bytes that can not be read are a finding; the report goes without this picture
        return ()


def changed_picture(compared: Comparison, *, progress: Progress | None = None) -> tuple[Figure, ...]:
    """Return the histograms of the tensor that has changed most, if both sides store it as it is."""
    from ckpt_gui.core.stats import pair_stats
    from ckpt_gui.core.tensors import TensorRef

    measured = [r for r in compared.rows if r.delta is not None and r.delta.relative is not None]
    for row in sorted(measured, key=lambda r: -(r.delta.relative or 0) if r.delta else 0):
        one, two = (stored.entry.expr if stored and stored.entry else None for stored in (row.a, row.b))
        if isinstance(one, TensorRef) and isinstance(two, TensorRef) and one.shape == two.shape:
            assert compared.a.plan is not None
            assert compared.b.plan is not None
            sources = (compared.a.plan.source, compared.b.plan.source)
            try:
                return _pair(pair_stats(sources[0], one, two, other=sources[1], progress=progress), row.key)
            except CheckpointError:  # the file has changed since it was compared
                return ()
    return ()


def _pair(pair: PairStats, key: str = "") -> tuple[Figure, ...]:
    names = ("A", "B") if key else (safe_text(pair.a.key, 60), safe_text(pair.b.key, 60))
    what = f"Values of `{safe_text(key)}`, which has changed most" if key else "Values of the embedding and the head"
    made = histograms(
        f"{what}: elements by value, on a logarithmic scale", pair.edges, names, (pair.hist_a, pair.hist_b)
    )
    return () if made is None else (made,)


def layer_pictures(scanned: Scan) -> tuple[Figure, ...]:
    """Return the standard deviation of each role over the layers."""
    roles: dict[str, dict[int, float]] = {}
    for tensor in scanned.tensors:
        if tensor.role.layer is not None and tensor.stats.std is not None:
            strip = roles.setdefault(tensor.role.name, {})
            strip[tensor.role.layer] = max(strip.get(tensor.role.layer, 0.0), tensor.stats.std)
    made = []
    for name, strip in roles.items():
        layers = sorted(strip)
        caption = f"Standard deviation of `{safe_text(name)}` by layer"
        if len(layers) > 1 and (picture := bars(caption, list(map(str, layers)), [strip[n] for n in layers])):
            made.append(picture)
    return tuple(made[:MOST_STRIPS])
