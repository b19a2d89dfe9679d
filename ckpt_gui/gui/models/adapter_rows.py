"""What the window says of an adapter: a row a module, and the layouts that it, or a model, can be written in."""

from __future__ import annotations

from ckpt_gui.core.adapter_layouts import adapter_layout
from ckpt_gui.core.adapters import Adapter
from ckpt_gui.core.plan import Plan
from ckpt_gui.dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AdapterRow:
    """One module.

    Attributes:
        module: Its name.
        rank: The rank.
        alpha: Alpha in words; a question mark where nothing tells.
        scale: What the product is multiplied by, likewise.
    """

    module: str
    rank: str
    alpha: str
    scale: str


def adapter_rows(adapter: Adapter) -> tuple[AdapterRow, ...]:
    """Return a row for each module, in file order."""
    return tuple(
        AdapterRow(lora.module, f"{lora.rank:,}", _figure(lora.alpha), _figure(lora.scale)) for lora in adapter.loras
    )


def is_possible(plan: Plan, layout: str) -> bool:
    """Return whether a checkpoint, or an adapter, can be written in a layout."""
    if plan.adapter is not None and not plan.adapter.inside:
        return adapter_layout(plan, layout) is not None
    return layout == "same" or (plan.family is not None and plan.family.layout(layout) is not None)


def _figure(value: float | None) -> str:
    return "?" if value is None else f"{value:g}"
