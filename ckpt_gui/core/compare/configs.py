"""Where two configs differ: what a fine-tune, a conversion or a longer context has changed beside the tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ckpt_gui.core.adapters import Adapter
from ckpt_gui.core.compare.result import ConfigDifference, Side
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.model_config import ModelConfig


def config_differences(a: Side, b: Side) -> tuple[ConfigDifference, ...]:
    """Return the facts that both sides tell beside their tensors, and tell differently.

    An effective tie flag counts as told; of adapters rank, alpha and scale are, which no tensor shows.
    """
    return (*_model(a, b), *_adapter(a, b))


def _model(a: Side, b: Side) -> tuple[ConfigDifference, ...]:
    if a.config is None or b.config is None:
        return ()
    one, two = _facts(a.config), _facts(b.config)
    one["tie_word_embeddings"], two["tie_word_embeddings"] = (_flag(side) for side in (a, b))
    names = [name for name in one if one[name] is not None and two.get(name) is not None]
    names += [name for name in ("rope_scaling",) if a.config.is_hf and b.config.is_hf and name not in names]
    return tuple(
        ConfigDifference(name, _shown(one[name]), _shown(two[name])) for name in names if one[name] != two[name]
    )


def _adapter(a: Side, b: Side) -> tuple[ConfigDifference, ...]:
    one, two = (side.plan.adapter if side.plan else None for side in (a, b))
    if one is None or two is None:
        return ()
    left, right = _scales(one), _scales(two)
    return tuple(
        ConfigDifference(f"adapter's {name}", left[name], right[name]) for name in left if left[name] != right[name]
    )


def _scales(adapter: Adapter) -> dict[str, str]:
    """Return rank, alpha and scale of an adapter's modules in words."""
    found: dict[str, set[float | None]] = {
        "rank": {lora.rank for lora in adapter.loras},
        "alpha": {lora.alpha for lora in adapter.loras},
        "scale": {lora.scale for lora in adapter.loras},
    }
    return {
        name: ", ".join(_shown(value) for value in sorted(v for v in values if v is not None)) or "not told"
        for name, values in found.items()
    }


def _facts(config: ModelConfig) -> dict[str, Any]:
    facts = {
        "model_type": config.model_type, "norm_eps": config.norm_eps, "rope_theta": config.rope_theta,
        "rope_scaling": config.rope_scaling, "max_positions": config.max_positions, "dtype": config.dtype,
    }  # fmt: skip
    return facts | dict(config.dims) | dict(config.flags)


def _flag(side: Side) -> bool | None:
    if side.config is None or side.family is None:
        return None
    return side.config.tie_flag(side.family.tie_default)[0]


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return f"{value:,.0f}" if value == int(value) else str(value)
    if isinstance(value, Mapping):
        return safe_text(", ".join(f"{name} {part}" for name, part in value.items()), 200)
    return "none" if value is None else safe_text(str(value), 200)
