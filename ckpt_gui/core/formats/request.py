"""What an opening was asked for, handed on as one value."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from ckpt_gui.core.formats.registry import IsCancelled, Progress
from ckpt_gui.dataclasses import dataclass

Indexed = Callable[[Mapping[str, str]], None]
Config = str | os.PathLike[str] | Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Request:
    """What an opening was asked for; see `open_checkpoint`.

    Attributes:
        config: A config to use instead of the one beside the weights.
        salvage: True to open a damaged file for what is whole of it.
        take: The file of a folder that says which of its models is meant; None for the only one.
        progress: Told what is being done.
        cancelled: Asked between files.
        indexed: Told the shard of each key before any shard is opened.
    """

    config: Config = None
    salvage: bool = False
    take: str | None = None
    progress: Progress | None = None
    cancelled: IsCancelled | None = None
    indexed: Indexed | None = None
