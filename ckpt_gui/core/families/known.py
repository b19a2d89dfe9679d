"""Published models by name (`--against NAME`) and by size, by which a file without a config is recognised.

The table itself is `known_models`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches

from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.families.known_models import KNOWN, Known
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.symbols import size_of

__all__ = ["KNOWN", "Known", "find_known", "fitting"]

# Parts of a name that say how a model was tuned, stored or named, and not which sizes it has.
_TUNED = frozenset(
    (
        *("instruct", "it", "pt", "base", "chat", "hf", "deduped", "original", "meta", "c4ai", "text"),
        *("bf16", "fp16", "fp8", "4k", "128k"),
    )
)
_FIRST = frozenset(("v0.1", "v01"))  # left out of a name last: where there are later versions they have other names


def find_known(name: str) -> Known:
    """Return the model of that name.

    An owner before it, case, dashes, the order of its parts, and what says how it was tuned (`-Instruct`, `-it`) do not
    count, unless there is a model of just that name.

    Raises:
        CheckpointError: There is none; the message names those that are spelled alike.

    >>> find_known("meta-llama/llama-3.2-1b-instruct").name, find_known("gpt2").name
    ('Llama-3.2-1B', 'GPT-2')
    """
    parts = _parts(name.rpartition("/")[2])
    for left_out in (frozenset[str](), _TUNED, _TUNED | _FIRST):
        wanted = [part for part in parts if part not in left_out]
        for same in (_joined, sorted):
            found = next((m for m in KNOWN if wanted and same(_parts(m.name)) == same(wanted)), None)
            if found is not None:
                return found
    text = f"{safe_text(name, 80)} is neither a file or folder nor the name of a known model."
    raise CheckpointError("not-a-checkpoint", text, fix=_advice(name))


def _parts(name: str) -> tuple[str, ...]:
    return tuple(part for part in re.split(r"[-_ ]+", name.lower()) if part)


def _joined(parts: Iterable[str]) -> str:
    return "".join(parts).replace(".", "")


def _advice(name: str) -> str:
    by_name = {_joined(_parts(model.name)): model.name for model in KNOWN}
    wanted = _joined(part for part in _parts(name.rpartition("/")[2]) if part not in _TUNED)
    near = [by_name[key] for key in get_close_matches(wanted, by_name, 4, 0.5)]
    if not near:
        return f"Name a path, or one of {len(KNOWN)} published models, such as {KNOWN[0].name} or {KNOWN[-1].name}."
    return f"Name a path or a published model; spelled alike {'is' if len(near) == 1 else 'are'} {', '.join(near)}."


def fitting(families: Iterable[str], sizes: Mapping[str, int], layers: int) -> tuple[Known, ...]:
    """Return the models of some families that have exactly these sizes.

    Args:
        families: Names of families that the tensors' names fit.
        sizes: Sizes by symbol, or product of symbols (`heads*head_dim`), as the slots have them.
        layers: Number of layers.
    """
    names = frozenset(families)
    return tuple(m for m in KNOWN if m.family in names and m.dims["layers"] == layers and _has(m, sizes))


def _has(model: Known, sizes: Mapping[str, int]) -> bool:
    told = {symbol: size for symbol, size in sizes.items() if _size(symbol, model) is not None}
    embedded = {"vocab", "vocab+8"} & told.keys()  # a Llama with images has 8 rows more
    return "hidden" in told and bool(embedded) and all(_size(symbol, model) == size for symbol, size in told.items())


def _size(symbol: str, model: Known) -> int | None:
    try:
        return size_of(symbol, model.dims)
    except KeyError:
        return None
