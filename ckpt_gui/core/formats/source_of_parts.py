"""From the parts of a checkpoint, the files that were opened, to one `Source`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

from ckpt_gui.core.errors import Finding
from ckpt_gui.core.formats.parts import Part
from ckpt_gui.core.formats.places import list_all
from ckpt_gui.core.formats.request import Request
from ckpt_gui.core.formats.sidecars import read_sidecars
from ckpt_gui.core.formats.weights_kind import find_kinds
from ckpt_gui.core.source import Source


def make_source(
    path: str, folder: str, parts: Sequence[Part], request: Request, problems: Sequence[Finding] = ()
) -> Source:
    """Return the source that some parts make up.

    Args:
        path: What was opened.
        folder: Where the files beside the weights lie.
        parts: The files that were opened, in order.
        request: What was asked for.
        problems: What is known already, that of the parts included.

    Raises:
        CheckpointError: The config that was named cannot be read.
    """
    refs = tuple(chain.from_iterable(part.refs for part in parts))
    extras = tuple(chain.from_iterable(part.extras for part in parts))
    sidecars, more = read_sidecars(folder, request.config)
    kinds = find_kinds(refs, extras, list_all(folder), sidecars.config)
    cut = any(problem.code == "partitioned-state" for problem in problems)  # empty parts are no placeholders then
    found = [*problems, *(kind for kind in kinds if not cut or kind.code != "partitioned-state")]
    return Source(
        path=path,
        container=parts[0].container,
        refs=refs,
        files=tuple(chain.from_iterable(part.files for part in parts)),
        tree=parts[0].tree if len(parts) == 1 else _merge_trees(parts),
        metadata=parts[0].metadata,
        extras=extras,
        problems=(*_merge(found), *more),
        sidecars=sidecars,
        readers={part.name: part.reader for part in parts},
        config=parts[0].config,
        blocks=parts[0].blocks,
        checksums={place: crc for part in parts for place, crc in part.checksums.items()},
    )


def _merge_trees(parts: Sequence[Part]) -> Any:
    """The shards of a torch model are flat dicts of their own keys."""
    trees = [part.tree for part in parts if isinstance(part.tree, dict)]
    return {key: value for tree in trees for key, value in tree.items()} if trees else None


def _merge(problems: Sequence[Finding]) -> list[Finding]:
    """Say once what is the same in every one of many shards."""
    merged: dict[tuple[str, str, bool], list[Finding]] = {}
    for finding in problems:
        merged.setdefault((finding.code, finding.severity, finding.blocking), []).append(finding)
    result = []
    for same in merged.values():
        if len(same) <= 3:
            result += same
            continue
        message = f"{same[0].message} {len(same) - 1} more files have the same problem."
        keys = tuple(dict.fromkeys(key for finding in same for key in finding.keys))
        result.append(same[0].replace(message=message, keys=keys))
    return result
