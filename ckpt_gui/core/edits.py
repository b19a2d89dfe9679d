"""What a user changes by hand: names of tensors, and fields of the config and of the metadata. Values, no more.

They are part of the decisions that a plan is made with (`policy`, `export.Target`); `renames` and `fields` carry them
out. Nothing here touches a file.
"""

from __future__ import annotations

from typing import Literal

from ckpt_gui.dataclasses import dataclass

RenameKind = Literal["key", "template", "regex"]
RENAME_KINDS: tuple[RenameKind, ...] = ("key", "template", "regex")


@dataclass(frozen=True, slots=True)
class Rename:
    r"""A rule that gives stored tensors other names, before their layout is told.

    Attributes:
        old: The name of one tensor (`key`); one with placeholders such as `{layer}`, each a whole number, the same
            placeholder the same number (`template`); or a regular expression, searched for (`regex`).
        new: The name; with the same placeholders; or what each match becomes, with `\1` for its first group.
        kind: Which of the three.
    """

    old: str
    new: str
    kind: RenameKind = "key"


@dataclass(frozen=True, slots=True)
class FieldEdit:
    """A field that shall have another value.

    Attributes:
        name: Its name; the parts of a nested one with dots between them, as `rope_scaling.factor`.
        value: The value as JSON text; None to take the field out.
    """

    name: str
    value: str | None
