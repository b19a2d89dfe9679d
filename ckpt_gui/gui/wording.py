"""Names and numbers for people that only the window needs; sizes and plurals are those of the reports."""

from __future__ import annotations

from collections.abc import Sequence

from ckpt_gui.core.text import human_bytes as core_bytes
from ckpt_gui.gui.language import local, said


def count_text(number: int) -> str:
    """Return a count in full, as the locale writes it.

    >>> count_text(120_144)
    '120,144'
    """
    return local(f"{number:,}")


def human_bytes(size: int) -> str:
    """Return a size in binary units, as the locale writes it.

    >>> human_bytes(2_471_645_608)
    '2.30 GiB'
    """
    return local(core_bytes(size))


def human_count(number: int) -> str:
    """Return a large count in words, a small one in full.

    >>> human_count(120_144), human_count(1_235_814_400), human_count(8_030_261_248)
    ('120,144', '1.24 billion', '8.03 billion')
    """
    for limit, word in ((10**12, "trillion"), (10**9, "billion"), (10**6, "million")):
        if number >= limit:
            return said(f"{_three(number / limit)} {word}")
    return count_text(number)


def shape_text(shape: Sequence[int | None]) -> str:
    """Return a shape as it is shown; a size that is not known is a question mark.

    >>> shape_text((128256, 2048)), shape_text((None, 4)), shape_text(())
    ('128256 × 2048', '? × 4', 'scalar')
    """
    return " × ".join("?" if size is None else str(size) for size in shape) or "scalar"


def capital(text: str) -> str:
    """Return a text that starts with a capital, unless its first word is a key.

    >>> capital("rows change places"), capital("tok_embeddings.weight is that of the hub")
    ('Rows change places', 'tok_embeddings.weight is that of the hub')
    """
    first = text.split(" ", 1)[0]
    return text if {".", "_"} & set(first.rstrip(".")) else text[:1].upper() + text[1:]


def _three(value: float) -> str:
    return f"{value:.2f}" if value < 9.995 else f"{value:.1f}" if value < 99.95 else f"{value:.0f}"


def figure_text(value: float | None) -> str:
    """Return a figure with six digits that matter; whole numbers in full.

    >>> figure_text(0.0198743211), figure_text(120000), figure_text(None)
    ('0.0198743', '120,000', '–')
    """
    if value is None:
        return "–"
    return local(f"{value:,}" if isinstance(value, int) else f"{value:.6g}")
