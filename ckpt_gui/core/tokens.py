"""Which token a row of the embedding stands for: a small reader of the vocabularies that lie beside a model.

`tokenizer.json` (the model's vocabulary and the added tokens) and `vocab.json` are read; nothing in them is run. A name
is for people: byte-level vocabularies are shown as the text that their bytes are.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from ckpt_gui.core.keys import safe_text
from ckpt_gui.dataclasses import dataclass

FILES = ("tokenizer.json", "vocab.json")
MOST_BYTES = 64 << 20
MOST_TOKENS = 2_000_000


@dataclass(frozen=True)
class Vocabulary:
    """Tokens by number.

    Attributes:
        origin: The file they come from.
        tokens: Number → token, as the file has it.
    """

    origin: str
    tokens: Mapping[int, str]

    def name(self, number: int) -> str | None:
        """Return a token fit to be shown; None if there is none of that number."""
        token = self.tokens.get(number)
        return None if token is None else safe_text(_readable(token), 60)

    def find(self, text: str) -> int | None:
        """Return the number of a token, given as the file has it or as it reads; None if there is none."""
        return self._numbers.get(text)

    def row(self, text: str) -> int | None:
        """Return the row that a user asks for: digits are its number, all else is a token, and so is what is in quotes.

        >>> known = Vocabulary("vocab.json", {5: "a", 37: "5"})
        >>> known.row("5"), known.row('"5"'), known.row("a"), known.row("b")
        (5, 37, 5, None)
        """
        if text.isascii() and text.isdigit():
            return int(text)
        found = self.find(text)
        quoted = len(text) > 2 and text[0] == text[-1] == '"'
        return self.find(text[1:-1]) if found is None and quoted else found

    @cached_property
    def _numbers(self) -> dict[str, int]:
        stored = {token: number for number, token in self.tokens.items()}
        return {_readable(token): number for token, number in stored.items()} | stored


def vocabulary(folder: str | None) -> Vocabulary | None:
    """Return the vocabulary that lies in a folder; None if there is none that can be read."""
    for name in FILES if folder else ():
        path = Path(folder or "", name)
        try:
            if path.stat().st_size > MOST_BYTES:
                continue
            value = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            continue
        tokens = dict(_tokens(value))
        if tokens:
            return Vocabulary(name, tokens)
    return None


def _tokens(value: Any) -> Iterator[tuple[int, str]]:
    """Yield number and token of a parsed file, whichever of the two it is."""
    if not isinstance(value, dict):
        return
    model = value.get("model")
    found = model.get("vocab") if isinstance(model, dict) else value
    pairs: Any = ()
    if isinstance(found, dict):
        pairs = found.items()
    elif isinstance(found, list):  # Unigram: [token, score] in order
        pairs = ((item[0], number) for number, item in enumerate(found) if isinstance(item, list) and item)
    for count, (token, number) in enumerate(pairs):
        if count < MOST_TOKENS and isinstance(token, str) and type(number) is int:
            yield number, token
    added = value.get("added_tokens")
    for item in added if isinstance(added, list) else ():
        if isinstance(item, dict) and isinstance(item.get("content"), str) and type(item.get("id")) is int:
            yield item["id"], item["content"]


def _byte_letters() -> dict[str, int]:
    """Return the letters by which GPT-2's byte-level vocabularies write bytes (openai/gpt-2 `encoder.py`)."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {chr(256 + n): byte for n, byte in enumerate(others)}


_LETTERS = _byte_letters()


def _readable(token: str) -> str:
    """Return a token as the text that it stands for, where it is one; else as it is.

    >>> _readable("Ġhello"), _readable("▁world"), _readable("<|end|>")
    (' hello', ' world', '<|end|>')
    """
    if "▁" in token:
        return token.replace("▁", " ")
    if all(letter in _LETTERS for letter in token):
        try:
            return bytes(_LETTERS[letter] for letter in token).decode("utf-8")
        except UnicodeDecodeError:  # a part of a character
            return token
    return token
