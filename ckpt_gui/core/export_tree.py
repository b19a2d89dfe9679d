"""What an export carries of a nested file besides weights, and what of it stays behind."""

from __future__ import annotations

from typing import Any

from ckpt_gui.core.beside import ForeignObject
from ckpt_gui.core.export import Export


def carries_tree(export: Export) -> bool:
    """Return True if the export keeps the nesting of the source, and what is not a weight where it is inert."""
    source = export.plan.source
    one = source.tree is not None and len(source.files) == 1
    return one and export.target.layout == "same" and export.container == "torch"


def left_out(export: Export) -> tuple[str, ...]:
    """Return the places of values that are not tensors and that an export in the same layout does not carry."""
    source = export.plan.source
    if export.target.layout != "same":
        return ()  # weights alone are what is wanted
    if not carries_tree(export):
        return tuple(".".join(extra.path) for extra in source.extras)
    found = _foreign(source.tree)
    return tuple(sorted(f"{'.'.join(where) or 'the whole'} ({name})" for where, name in found))


def _foreign(tree: Any, limit: int = 1000) -> list[tuple[tuple[str, ...], str]]:
    """Return place and class of the foreign objects in a tree, up to a limit."""
    found: list[tuple[tuple[str, ...], str]] = []
    stack: list[tuple[Any, tuple[str, ...]]] = [(tree, ())]
    while stack and len(found) < limit:
        item, where = stack.pop()
        if isinstance(item, ForeignObject):
            found.append((where, item.name))
        elif isinstance(item, dict):
            stack += [(v, (*where, str(k))) for k, v in item.items()]
        elif type(item) in (list, tuple):
            stack += [(v, (*where, str(i))) for i, v in enumerate(item)]
    return found
