"""What every kind of torch file comes to: refs, a tree, previews, and findings about its pickle."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from ckpt_gui import dataclasses
from ckpt_gui.core.beside import Extra
from ckpt_gui.core.errors import Finding
from ckpt_gui.core.formats.file_errors import show_path
from ckpt_gui.core.formats.pickle_distributed import DISTRIBUTED, LocalPart
from ckpt_gui.core.formats.pickle_load import PickleResult
from ckpt_gui.core.formats.torch_tree import TreeWalk, find_problems
from ckpt_gui.core.formats.weights_kind import shards_finding
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.source import Reader
from ckpt_gui.core.tensors import TensorRef
from ckpt_gui.dataclasses import dataclass, field

BLOAT = 1 << 20


@dataclass(frozen=True, slots=True)
class TorchFile:
    """What a torch file holds.

    Attributes:
        container: Its kind.
        reader: Reads the tensors.
        tree: The nested values with refs as leaves.
        refs: The tensors.
        extras: Previews of what is not a tensor.
        problems: What the user should know.
        checksums: Size and CRC-32 by (file, storage); empty if it was written without.
        shards: What tensors that are one rank's part of a distributed one say of the whole, by path.
    """

    container: str
    reader: Reader
    tree: Any
    refs: tuple[TensorRef, ...]
    extras: tuple[Extra, ...]
    problems: tuple[Finding, ...]
    checksums: Mapping[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    shards: Mapping[tuple[str, ...], LocalPart] = field(default_factory=dict)


def make_file(
    container: str,
    name: str,
    reader: Reader,
    sizes: Mapping[str, int],
    pickle: PickleResult,
    checksums: Mapping[tuple[str, str], tuple[int, int]] | None = None,
    problems: Sequence[Finding] = (),
) -> TorchFile:
    """Turn a pickle into a torch file.

    Args:
        container: Its kind.
        name: What the refs shall call it.
        reader: Reads the tensors.
        sizes: Bytes of each storage.
        pickle: The pickle that was read.
        checksums: Size and CRC-32 by (file, storage).
        problems: What is known of the container itself.

    Raises:
        CheckpointError: `limit-exceeded`.
    """
    walk = TreeWalk(name, sizes)
    tree = walk.convert(pickle.value, ())
    found = find_problems(walk, show_path(name))
    found += pickle_problems(pickle, name, walk.named)
    found += shards_finding(walk.refs, walk.shards, show_path(name))
    found += _bloat(walk.refs, sizes, name)
    return TorchFile(
        container,
        reader,
        tree,
        tuple(walk.refs),
        _extras(walk),
        (*found, *problems),
        checksums or {},
        walk.shards,
    )


def merge_pickles(results: Sequence[PickleResult]) -> PickleResult:
    """Return the last of some pickles, with the names that all of them mention."""
    foreign = tuple(dict.fromkeys(name for result in results for name in result.foreign))
    unsafe = tuple(dict.fromkeys(name for result in results for name in result.unsafe))
    return dataclasses.replace(results[-1], foreign=foreign, unsafe=unsafe)


def pickle_problems(
    result: PickleResult, name: str, places: Mapping[str, tuple[str, ...]] | None = None
) -> list[Finding]:
    """Return findings about the names that a pickle mentions.

    Args:
        result: The pickle that was read.
        name: The file.
        places: Where the first object of a name sits in the value, as far as it is there at all.
    """
    found = []
    if result.unsafe:
        names = _with_places(result.unsafe, places or {})
        what = f"{show_path(name)} would run code in a permissive loader: it names {names}"
        message = f"{what}. Nothing of it was run here."
        fix = "The export holds tensors only. Do not load the file with weights_only=False."
        found.append(Finding("unsafe-pickle", "error", message, keys=result.unsafe, fix=fix))
    others = tuple(n for n in result.foreign if n not in result.unsafe and not _is_plumbing(n, result))
    if others:
        names = _with_places(others, places or {})
        message = f"{show_path(name)} holds objects of other classes, which stay inert here: {names}."
        found.append(Finding("foreign-object", "warning", message, keys=others, fix="The export leaves them out."))
    return found


def _with_places(names: Sequence[str], places: Mapping[str, tuple[str, ...]]) -> str:
    """Return names with the keys that lead to them: `os.system (in `a.b`)`; what was thrown away has no place."""
    shown = []
    for name in names[:8]:
        path = places.get(name)
        shown.append(f"{safe_text(name, 80)} (in `{safe_text('.'.join(path), 120)}`)" if path else safe_text(name, 80))
    return ", ".join(shown) + (", …" if len(names) > 8 else "")


def _is_plumbing(name: str, result: PickleResult) -> bool:
    """True for what belongs to a distributed tensor, which is taken for the tensor that it is."""
    distributed = not DISTRIBUTED.isdisjoint(result.foreign)
    return distributed and name.startswith(("torch.distributed.", "torch._utils._rebuild_wrapper_subclass"))


def _bloat(refs: list[TensorRef], sizes: Mapping[str, int], name: str) -> list[Finding]:
    """Find storages of which the tensors use only a part: a view was saved with all that it was cut from."""
    large = {storage for storage, size in sizes.items() if size > BLOAT}
    users: dict[str, list[TensorRef]] = defaultdict(list)
    for ref in refs if large else ():
        if ref.storage in large:
            users[ref.storage].append(ref)
    wasted, keys = 0, []
    for storage, sharing in users.items():
        if any(r.nbytes == sizes[storage] for r in sharing):
            continue
        unused = sizes[storage] - sum({r.place: r.nbytes for r in sharing}.values())
        if unused > BLOAT:
            wasted += unused
            keys += [r.full_key for r in sharing]
    if not keys:
        return []
    what = f"{show_path(name)} carries {wasted:,} bytes that no tensor uses"
    message = f"{what}: views were saved with their whole storage."
    return [Finding("storage-bloat", "warning", message, keys=tuple(keys), fix="The export holds what is used.")]


def _extras(walk: TreeWalk) -> tuple[Extra, ...]:
    if not walk.more:
        return tuple(walk.extras)
    return (*walk.extras, Extra((), "more", f"{walk.more:,} more values that are not tensors"))
