"""Two checkpoints beside each other, through hub names: names, shapes, types, and values where they are asked for."""

from __future__ import annotations

from ckpt_gui.core.compare.fold import Fold, fold
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
from ckpt_gui.core.compare.run import compare, is_checkpoint, opened_sides, side_of_name, with_ranks
from ckpt_gui.core.compare.sides import side_of_config, side_of_known, side_of_plan
from ckpt_gui.core.compare.summary import Change, by_layer, by_role

__all__ = [
    "SAME", "STATES", "WORDS", "Change", "Comparison", "ConfigDifference", "Delta", "Fold", "Kind", "RankEstimate",
    "Row", "Side", "State", "Stored", "by_layer", "by_role", "compare", "fold", "is_checkpoint", "opened_sides",
    "side_of_config", "side_of_known", "side_of_name", "side_of_plan", "with_ranks",
]  # fmt: skip
