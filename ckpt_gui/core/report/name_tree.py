"""A tree of names out of lines that each stand for one name, or for a range of names."""

from __future__ import annotations

from collections.abc import Iterable

from ckpt_gui.core.text import Branch

DEEPEST = 12  # segments of a name that can be branches: a hostile name has thousands
Tree = dict[str, "Tree | list[Branch]"]


def name_tree(lines: Iterable[tuple[str, Branch]]) -> tuple[Branch, ...]:
    """Return lines as branches, in the order in which they come; what has one child only is one with it.

    Args:
        lines: A name and its line, whose label is replaced.
    """
    root: Tree = {}
    for name, line in lines:
        *path, last = name.split(".", DEEPEST)
        tree = root
        for segment in path:
            below = tree.setdefault(f"{segment}.", {})
            assert isinstance(below, dict)
            tree = below
        leaves = tree.setdefault(last, [])
        assert isinstance(leaves, list)
        leaves.append(line)
    return _branches(root)


def _branches(tree: Tree) -> tuple[Branch, ...]:
    made: list[Branch] = []
    for name, below in tree.items():
        if isinstance(below, list):
            made += [_labelled(line, name) for line in below]
            continue
        children = _branches(below)
        if len(children) == 1:
            made.append(_labelled(children[0], name + children[0].label))
        else:
            made.append(Branch(name.rstrip("."), children=children))
    return tuple(made)


def _labelled(line: Branch, label: str) -> Branch:
    return Branch(label, line.note, line.style, line.children, line.members)
