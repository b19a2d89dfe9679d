"""How mixtures of experts are stored: one tensor an expert on disk, one for all experts in transformers 5's memory.

Sources: transformers 5 `conversion_mapping.py`, `core_model_loading.py`; one recipe serves Mixtral, Qwen and DeepSeek.
"""

from __future__ import annotations

from ckpt_gui.core.families.rule_schema import Rule, Split
from ckpt_gui.core.families.schema import Layout, Oracle, Slot
from ckpt_gui.core.symbols import EQUAL

FUSED_SOURCE = "transformers 5 conversion_mapping.py"


def experts(before: str, gate: str, up: str, down: str, ffn: str) -> tuple[Slot, ...]:
    """Return the slots of the experts of a layer, each with three matrices.

    Args:
        before: The hub name of the experts' part (`model.layers.{layer}.mlp.experts`).
        gate: What the first matrix is called there, and so on.
        up: The second.
        down: The third.
        ffn: Width of an expert.
    """
    name = before + ".{expert}."
    return (
        Slot(f"{name}{gate}.weight", (ffn, "hidden"), group="moe"),
        Slot(f"{name}{up}.weight", (ffn, "hidden"), group="moe"),
        Slot(f"{name}{down}.weight", ("hidden", ffn), group="moe"),
    )


def fused(
    slots: tuple[Slot, ...], before: str, fused_before: str, names: tuple[str, str, str], renamed: dict[str, str]
) -> Layout:
    """Return the layout that transformers 5 has in memory.

    Args:
        slots: All slots of the family.
        before: The hub name of the experts' part.
        fused_before: The name of that part in memory.
        names: The three matrices of an expert.
        renamed: Other hub keys that have another name in memory.
    """
    gate, up, down = (f"{before}.{{expert}}.{name}.weight" for name in names)
    return Layout(
        "hf-fused",
        (
            *(Rule(renamed.get(s.key, s.key), s.key) for s in slots if "{expert}" not in s.key),
            Rule(f"{fused_before}.gate_up_proj", (gate, up), split=Split((EQUAL, EQUAL)), stack="expert"),
            Rule(f"{fused_before}.down_proj", down, stack="expert"),
        ),
        source=FUSED_SOURCE,
        oracle=Oracle.SAVED,
    )
