"""ckpt_gui: open a language-model checkpoint, see how it differs from what it should be, and write it fixed.

For scripts::

    from ckpt_gui import open_checkpoint, normalise, write, normalise_state_dict

    plan = normalise(open_checkpoint("last.ckpt"))
    write(plan, "out/", layout="hf")

    clean = normalise_state_dict(model.state_dict())  # in a training script, before saving

Nothing heavy is imported until it is used: not torch, not numpy, not Qt.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ckpt_gui.core.api import compare, diff, stats, write
    from ckpt_gui.core.edits import FieldEdit, Rename
    from ckpt_gui.core.errors import CheckpointError
    from ckpt_gui.core.formats import open_checkpoint
    from ckpt_gui.core.normalise import normalise
    from ckpt_gui.core.policy import Policy
    from ckpt_gui.core.state_dict import normalise_state_dict

__all__ = [
    "CheckpointError",
    "FieldEdit",
    "Policy",
    "Rename",
    "compare",
    "diff",
    "normalise",
    "normalise_state_dict",
    "open_checkpoint",
    "stats",
    "write",
]

_HOMES = {
    "CheckpointError": "ckpt_gui.core.errors",
    "FieldEdit": "ckpt_gui.core.edits",
    "Policy": "ckpt_gui.core.policy",
    "Rename": "ckpt_gui.core.edits",
    "compare": "ckpt_gui.core.api",
    "diff": "ckpt_gui.core.api",
    "normalise": "ckpt_gui.core.normalise",
    "normalise_state_dict": "ckpt_gui.core.state_dict",
    "open_checkpoint": "ckpt_gui.core.formats",
    "stats": "ckpt_gui.core.api",
    "write": "ckpt_gui.core.api",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names."""
    return sorted(__all__)
