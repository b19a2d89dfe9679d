"""Explains messages of loaders and converters: the cause, the kind of fault, and what to do about it.

What torch, safetensors, transformers and their kin print seldom names the cause: a Git LFS pointer is a "header too
large", a compiled model a list of missing keys. The table says what each message means; what an open checkpoint is
known to be confirms one cause or another.
"""

from __future__ import annotations

from ckpt_gui.core.explain.cause import KINDS, Cause, Step
from ckpt_gui.core.explain.explaining import CAUSES, Explanation, Opened, explain
from ckpt_gui.core.explain.message import LIMIT, Message, paths_in, read_message

__all__ = [
    "CAUSES", "KINDS", "LIMIT", "Cause", "Explanation", "Message", "Opened", "Step", "explain", "paths_in",
    "read_message",
]  # fmt: skip
