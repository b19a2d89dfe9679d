"""What a checkpoint holds beside its tensors: other values in its files, and the files that stand next to them.

All of it is inert: an object of a class that is not on the allow-list is named here and never made.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ckpt_gui.dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ForeignObject:
    """An object of a class or function that is not on the allow-list: named, never made.

    Attributes:
        name: `module.qualname` as the pickle has it.
        called: True if loading it normally would call that name (as a function or a class).
        unsafe: True if a permissive loader would run code that is not known to be harmless.
        children: Inert values found inside it (arguments and state).
    """

    name: str
    called: bool = True
    unsafe: bool = False
    children: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Extra:
    """A value in the file that is not a tensor, for display.

    Attributes:
        path: Names of the nested dicts and the key.
        kind: Type name, or the foreign class.
        text: Short safe preview.
    """

    path: tuple[str, ...]
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Sidecars:
    """Files beside the weights that say what they mean.

    Attributes:
        folder: Where they were looked for; None for a state dict in memory.
        config: Parsed `config.json`, or None.
        params: Parsed `params.json` (Meta, Mistral), or None.
        generation: Parsed `generation_config.json`, or None.
        origin: `source_config` of the `EXPORT_REPORT.json` of an export of ours, or None.
        stored: The layout that this report names, in which the export was written, or None.
        tokenizer: Names of tokenizer files found.
        carried: Names of all files that an export carries along (tokenizer, generation config, chat template).
        adapter: Parsed `adapter_config.json`, or None.
        lit: Parsed `model_config.yaml` of litgpt, or None.
        embeds: True if sentence-transformers' `modules.json` is there: the model is used without an output head.
    """

    folder: str | None = None
    config: Mapping[str, Any] | None = None
    params: Mapping[str, Any] | None = None
    generation: Mapping[str, Any] | None = None
    origin: Mapping[str, Any] | None = None
    tokenizer: tuple[str, ...] = ()
    carried: tuple[str, ...] = ()
    adapter: Mapping[str, Any] | None = None
    embeds: bool = False
    lit: Mapping[str, Any] | None = None
    stored: str | None = None
