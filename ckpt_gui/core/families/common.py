"""Stored values that are known in every family and are not weights.

Sources: torch `optim/swa_utils.py` (`n_averaged`), ema_pytorch (`initted`, `step`), TransformerEngine (`_extra_state`).
"""

from __future__ import annotations

from ckpt_gui.core.families.schema import Ignored

_COUNTER = "counts the steps of an averaging wrapper"

COMMON_IGNORED: dict[str, Ignored] = {
    "n_averaged": Ignored("n_averaged", _COUNTER),
    "initted": Ignored("initted", _COUNTER),
    "step": Ignored("step", _COUNTER),
}
EXTRA_STATE = Ignored("_extra_state", "keeps private state of a training library")


def common_ignored(key: str) -> Ignored | None:
    """Return why a key is not a weight in any family, or None if nothing says so.

    >>> common_ignored("layers.0.attn._extra_state").reason
    'keeps private state of a training library'
    """
    if key.rpartition(".")[2] == EXTRA_STATE.key:
        return EXTRA_STATE
    return COMMON_IGNORED.get(key)
