"""What a comparison finds, as findings: of a checkpoint beside its reference, or of two beside each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ckpt_gui.core.compare.result import HELP, Comparison, Row, State, Stored
from ckpt_gui.core.errors import Finding
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.text import plural

_Sentence = Callable[[Sequence[Row], str], Finding]  # from rows that are there, and the name of the other side


def differences(compared: Comparison) -> tuple[Finding, ...]:
    """Return what is wrong with A where it should be like B."""
    name = safe_text(compared.b.name, 120)
    rows = compared.rows
    untied_a = [r for r in rows if r.state == "untied" and compared.a.tied]
    untied_b = [r for r in rows if r.state == "untied" and not compared.a.tied]
    told: tuple[tuple[_Sentence, list[Row]], ...] = (
        (_permuted, [r for r in _of(rows, "permuted") if r.order == "rotary"]),
        (_reordered, [r for r in _of(rows, "permuted") if r.order != "rotary"]),
        (_swapped, _of(rows, "swapped")),
        (_missing, [*_of(rows, "only-b"), *untied_a]),
        (_wrong_shape, _of(rows, "shape")),
        (_vocabulary, _of(rows, "vocab")),
        (_extra, [*_of(rows, "only-a"), *untied_b]),
        (_renamed, _of(rows, "renamed")),
        (_unread, _of(rows, "unread")),
    )
    return tuple(sentence(found, name) for sentence, found in told if found)


def _of(rows: Sequence[Row], state: State) -> list[Row]:
    return [row for row in rows if row.state == state]


def _ours(row: Row) -> str:
    return row.a.key if row.a else ""


def _keys(rows: Sequence[Row]) -> tuple[str, ...]:
    return tuple(row.a.key if row.a else row.b.key if row.b else row.key for row in rows)


def _permuted(rows: Sequence[Row], name: str) -> Finding:
    text = (
        f"The rows of {len(rows)} q and k tensors such as `{safe_text(_ours(rows[0]))}` are those of {name} in the "
        "other rotary order: under these names the model would load and write gibberish."
    )
    fix = "Convert it again from its original, which has the rows as its names say; one of the two is mislabelled."
    return Finding("rope-permuted", "warning", text, _keys(rows), fix)


def _reordered(rows: Sequence[Row], name: str) -> Finding:
    text = (
        f"The values of {plural(len(rows), 'tensor')} such as `{safe_text(_ours(rows[0]))}` are those of {name} in "
        f"another order ({rows[0].note}): under these names the model would load and write gibberish."
    )
    fix = "Convert it again from its original, by a program that knows how this family lays them."
    return Finding("values-reordered", "warning", text, _keys(rows), fix)


def _swapped(rows: Sequence[Row], name: str) -> Finding:
    first = rows[0]
    text = (
        f"{len(rows)} tensors have the values of another of the same shape in {name}: `{safe_text(_ours(first))}` "
        f"{safe_text(first.note, 300)}."
    )
    fix = "Look at the converter that made it: it has mixed these names up."
    return Finding("tensors-swapped", "warning", text, _keys(rows), fix)


def _missing(rows: Sequence[Row], name: str) -> Finding:
    text = f"{plural(len(rows), 'tensor')} of {name} {'is' if len(rows) == 1 else 'are'} not here, "
    text += f"such as `{safe_text(rows[0].b.key if rows[0].b else rows[0].key)}`."
    keys = tuple(row.b.key for row in rows if row.b)
    return Finding("missing-tensor", "error", text, keys, "Is it the same model? Compare layers and sizes.")


def _wrong_shape(rows: Sequence[Row], name: str) -> Finding:
    first = rows[0]
    text = f"{plural(len(rows), 'tensor')} of another shape than in {name}: `{safe_text(_ours(first))}` is "
    text += f"{shape_text(first.a)}, there {shape_text(first.b)}."
    return Finding("shape-mismatch", "error", text, _keys(rows), "It is a model of another size.")


def shape_text(stored: Stored | None) -> str:
    """Return a shape in words: `3 × 4`, `1` for a single number."""
    sizes = stored.shape if stored else ()
    return " × ".join("?" if s is None else f"{s:,}" for s in sizes) or "1"


def _vocabulary(rows: Sequence[Row], name: str) -> Finding:
    have, want = ((s.shape if s and s.shape else (0,))[0] or 0 for s in (rows[0].a, rows[0].b))
    text = f"The vocabulary has {have:,} rows, that of {name} {want:,}: tokens were added, or rows padded."
    return Finding("vocab-padding", "info", text, _keys(rows))


def _extra(rows: Sequence[Row], name: str) -> Finding:
    text = f"{plural(len(rows), 'tensor')} such as `{safe_text(_ours(rows[0]))}` {'is' if len(rows) == 1 else 'are'} "
    return Finding("unexpected-tensor", "warning", f"{text}not in {name}.", _keys(rows))


def _renamed(rows: Sequence[Row], name: str) -> Finding:
    first = rows[0]
    there = safe_text(first.b.key if first.b else "")
    text = f"{plural(len(rows), 'tensor')} have another name in {name}: `{safe_text(_ours(first))}` is `{there}` there."
    if len(rows) == 1:
        text = f"One tensor has another name in {name}: `{safe_text(_ours(first))}` is `{there}` there."
    return Finding("renamed", "info", text, _keys(rows))


def _unread(rows: Sequence[Row], _name: str) -> Finding:
    text = f"The values of {plural(len(rows), 'tensor')} were not compared: {rows[0].note.rstrip('.')}."
    return Finding("values-unchecked", "info", text, _keys(rows), HELP.get(rows[0].note))


def diff_findings(compared: Comparison) -> tuple[Finding, ...]:
    """Return all that is different between two checkpoints, of which none need be wrong."""
    name = safe_text(compared.b.name, 120)
    told: tuple[tuple[State, str, str, str], ...] = (
        ("differs", "tensor-differs", f"has other values than in {name}", "have"),
        ("cast", "dtype-differs", f"equals that of {name} after a cast", "equal"),
        ("dtype", "dtype-differs", f"has another type than in {name}", "have"),
    )
    more = (_told(found, code, does, do) for state, code, does, do in told if (found := _of(compared.rows, state)))
    return (*differences(compared), *more)


def _told(rows: Sequence[Row], code: str, does: str, do: str) -> Finding:
    first = f"`{safe_text(_ours(rows[0]))}`"
    if len(rows) == 1:
        return Finding(code, "info", f"{first} {does}.", _keys(rows))
    rest = does.partition(" ")[2].replace("that of", "those of")
    return Finding(code, "info", f"{plural(len(rows), 'tensor')} such as {first} {do} {rest}.", _keys(rows))
