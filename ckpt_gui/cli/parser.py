"""The parser of every command line, and the one kind of word that the window takes too: it waits for no other."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import NoReturn

from ckpt_gui.core.remote.address import admit
from ckpt_gui.core.text import shown


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one sentence, and which never guesses at a shortened option."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        """Make a parser without abbreviations."""
        kwargs.setdefault("allow_abbrev", False)
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]

    def read(self, words: Sequence[str]) -> argparse.Namespace:
        """Return the arguments; an option that there is not is refused by name."""
        known, unknown = self.parse_known_args(words)
        if unknown:
            self.error(f"there is no option or argument {unknown[0]}.")
        return known

    def error(self, message: str) -> NoReturn:
        """Print one sentence and end with status 2."""
        sentence = shown(message).rstrip(".")
        self.exit(2, f"{self.prog}: {sentence}. See {self.prog} --help.\n")


def place(text: str) -> str:
    """Read a path or an address; what may be shown of an address stands for it from here on."""
    return admit(text)
