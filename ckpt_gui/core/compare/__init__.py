"""Two checkpoints beside each other, through hub names: names, shapes, types, and values where they are asked for."""

from __future__ import annotations

from ckpt_gui.core.compare.result import (
    SAME,
    STATES,
    WORDS,
    Comparison,
    ConfigDifference,
    Delta,
    Kind,
    RankEstimate,
    Row,
    Side,
    State,
    Stored,
)
from ckpt_gui.core.compare.run import compare, is_checkpoint, opened_sides, side_of_name
from ckpt_gui.core.compare.sides import side_of_config, side_of_known, side_of_plan

__all__ = [
    "SAME", "STATES", "WORDS", "Comparison", "ConfigDifference", "Delta", "Kind", "RankEstimate", "Row", "Side",
    "State", "Stored", "compare", "is_checkpoint", "opened_sides", "side_of_config", "side_of_known", "side_of_name",
    "side_of_plan",
]  # fmt: skip
