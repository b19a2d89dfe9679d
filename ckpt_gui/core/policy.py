"""The decisions of a user that a plan is made with.

They are a value beside the source: the same source, config and policy always give the same plan.
"""

from __future__ import annotations

from ckpt_gui.core.edits import FieldEdit, Rename
from ckpt_gui.dataclasses import dataclass

TIE_CHOICES = ("auto", "keep", "drop", "copy", "none")


@dataclass(frozen=True, slots=True)
class Policy:
    """What the user has decided.

    Attributes:
        section: The nested dict to take, where there are several.
        family: Name of the family, where names can not tell.
        heads: Number of query heads, where nothing tells.
        kv_heads: Number of key/value heads.
        tie: `auto`, `keep` (never leave out a stored head), `drop` (leave out an equal head), `copy` (always write one)
            or `none` (the model has no head and is to have none, as one that makes embeddings).
        skip: Ids of optional steps not to be done.
        dropped: Full keys of tensors that the user ticked to be left out.
        lora_alpha: Alpha of an adapter, where nothing tells or what tells is wrong.
        assigned_only: Take each tensor from the shard that the folder's index names, and leave out what it does not.
        stored: Name of the layout that the file has, where several have the same names.
        renames: Rules that give tensors other names before the layout is told, in their order.
        config: Fields of the config beside the weights that shall have other values.
        kept: Full keys of computed tensors that are carried along all the same.
    """

    section: tuple[str, ...] | None = None
    family: str | None = None
    heads: int | None = None
    kv_heads: int | None = None
    tie: str = "auto"
    skip: frozenset[str] = frozenset()
    dropped: frozenset[str] = frozenset()
    lora_alpha: float | None = None
    assigned_only: bool = False
    stored: str | None = None
    renames: tuple[Rename, ...] = ()
    config: tuple[FieldEdit, ...] = ()
    kept: frozenset[str] = frozenset()
