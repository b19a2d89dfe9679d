"""The language of the window: how sentences of the core, which are made in English, are looked up as they are shown.

Qt looks up whole texts, and a sentence of the core has its values in it already. So the texts of the source are known
as templates (`scripts/sentences.py` finds them): the template that a sentence was made from is found, looked up, and
the values put into what was found. The core stays free of languages, and what it writes to files stays English.
Without a translation nothing here costs anything.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

from PySide6.QtCore import QCoreApplication, QLibraryInfo, QLocale, QTranslator

from ckpt_gui.desktop.resources import resource

CONTEXT = "sentences"
MOST_SPOKEN = 8192  # sentences that are kept
FOLDER = "i18n"
TEMPLATES = "templates.json"
_PLACE = re.compile(r"\{\d+\}")
_NUMBER = re.compile(r"(?<![\w.,])(\d{1,3}(?:,\d{3})+|\d+)(\.\d+)?(?![\w,]|\.\d)")
_FIGURE = re.compile(_NUMBER.pattern + r"(?: ?(?:[KMGTP]i?B|B|%|billion|million|trillion|s|min))?")
_PIECES = (r"\n+", r"(?<=[.!?])\s+", r"\s{2,}", r"(?<=[;:])\s+", r"(?<=,)\s+|\s+·\s+")
_MARKS = (".", ",", ";", ":")
_DEEPEST = 4  # values in values in values


class Templates:
    """The texts of the program, to find the one that a sentence was made from.

    Args:
        texts: Plain texts, and templates with the places {0}, {1} and so on.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._plain: set[str] = set()
        self._by_start: defaultdict[str, list[tuple[int, str, re.Pattern[str]]]] = defaultdict(list)
        for text in texts:
            self._add(text)
        for group in self._by_start.values():
            group.sort(key=lambda one: -one[0])  # the one that says most first

    def find(self, sentence: str) -> tuple[str, tuple[str, ...]] | None:
        """Return the template of a sentence and the values in it, or None.

        >>> Templates(["{0} of {1}", "All {0} tensors", "none"]).find("All 12 tensors")
        ('All {0} tensors', ('12',))
        """
        if sentence in self._plain:
            return sentence, ()
        starting = self._by_start.get(_first_word(sentence), ())
        for _, text, pattern in (*starting, *self._by_start.get("", ())):
            match = pattern.fullmatch(sentence)
            if match:
                return text, match.groups()
        return None

    def _add(self, text: str) -> None:
        literals = _PLACE.split(text)
        if len(literals) == 1:
            self._plain.add(text)
            return
        weight = sum(map(len, literals))
        pattern = re.compile("(.+?)".join(map(re.escape, literals)), re.DOTALL)
        start = _first_word(literals[0]) if " " in literals[0].lstrip() else ""
        self._by_start[start].append((weight, text, pattern))


class _Language:
    """What is spoken now; one for the process, as Qt's translators are."""

    templates: Templates | None = None
    spoken: ClassVar[set[str]] = set()  # what was said; not looked up again, as its numbers are the locale's


def speak(templates: Templates | None) -> None:
    """Look sentences up by these templates from now on; None leaves them in English."""
    _Language.templates = templates
    _Language.spoken.clear()
    said.cache_clear()


@lru_cache(maxsize=MOST_SPOKEN)
def said(text: str) -> str:
    """Return a sentence of the core or of the plain values in the language of the window.

    What can not be found stays as it is: a key, a name, a sentence of another library.
    """
    templates = _Language.templates
    if templates is None or not text or text.isspace() or text in _Language.spoken:
        return text
    if len(_Language.spoken) > MOST_SPOKEN:
        _Language.spoken.clear()
    spoken = _said(text, templates, 0)
    _Language.spoken.add(spoken)
    return spoken


def mark(word: str) -> str:
    """Return a word as it is: one that is looked up when it is shown, and would be taken for a key in the source."""
    return word


def local(text: str) -> str:
    """Return a text with the numbers in it as the locale writes them.

    Only for texts that are numbers and units: in a name a number is no number.

    >>> local("2.30 GiB")
    '2.30 GiB'
    """
    locale = QLocale()
    if _counts_as_here(locale):
        return text
    return _NUMBER.sub(lambda match: _number(match, locale), text)


def install(app: QCoreApplication, folder: Path | None = None) -> None:
    """Speak the language of the system where there is a translation, else English; numbers as the locale writes them.

    Args:
        app: The application.
        folder: Where translations are; those of the program if None.
    """
    own = folder or resource(FOLDER)
    _add_translator(app, "qtbase", QLibraryInfo.path(QLibraryInfo.LibraryPath.TranslationsPath))
    spoken = _add_translator(app, "ckpt_gui", str(own))
    if (spoken or not _counts_as_here(QLocale())) and (own / TEMPLATES).exists():
        speak(read_templates(own / TEMPLATES))


def read_templates(file: Path) -> Templates:
    """Return the templates that `make translations` wrote beside the translations."""
    return Templates(json.loads(file.read_text(encoding="utf-8")))


def _add_translator(app: QCoreApplication, name: str, folder: str) -> bool:
    translator = QTranslator(app)
    found = translator.load(QLocale(), name, "_", folder)
    if found:
        app.installTranslator(translator)
    return found


def _said(text: str, templates: Templates, depth: int) -> str:
    for dressed, end in _undressed(text):
        found = templates.find(dressed)
        if found is not None:
            template, values = found
            spoken = QCoreApplication.translate(CONTEXT, template)
            shown = [_value(value, templates, depth + 1) for value in values]
            whole = _PLACE.sub(lambda place, shown=shown: shown[int(place[0][1:-1])], spoken) + end  # type: ignore[misc]
            return whole if dressed[0] == text[0] else whole[:1].upper() + whole[1:]
    for pattern in _PIECES:
        pieces = re.split(f"({pattern})", text)
        if len(pieces) > 1:
            return "".join(piece if i % 2 else _value(piece, templates, depth) for i, piece in enumerate(pieces))
    return text


def _undressed(text: str) -> Iterator[tuple[str, str]]:
    """Yield a text, and as it may stand in the source: without the mark at its end and the capital of a sentence."""
    for bare, end in ((text, ""), (text[:-1], text[-1:])) if text.endswith(_MARKS) else ((text, ""),):
        if bare:
            yield bare, end
            yield bare[:1].lower() + bare[1:], end


def _value(text: str, templates: Templates, depth: int) -> str:
    """Return a value of a sentence: a number, a name, or again a phrase."""
    if _FIGURE.fullmatch(text):
        return local(text)
    if depth > _DEEPEST or not re.search(r"[A-Za-z]{2}", text) or ("`" in text and " " not in text):
        return text
    return _said(text, templates, depth)


def _number(match: re.Match[str], locale: QLocale) -> str:
    whole, fraction = match[1], match[2] or ""
    grouped = locale.toString(int(whole.replace(",", ""))) if "," in whole else whole
    return grouped + fraction.replace(".", locale.decimalPoint())


def _counts_as_here(locale: QLocale) -> bool:
    """Tell a locale that writes numbers as the core does."""
    return locale.language() == QLocale.Language.C or (locale.decimalPoint(), locale.groupSeparator()) == (".", ",")


def _first_word(text: str) -> str:
    return text.split(" ", 1)[0]
