"""A folder as a model: which of its files hold the weights.

The order is that of the tools that will load it, with one exception that is said aloud: transformers loads a stale
`model.safetensors` before the shards that lie beside it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence

from ckpt_gui.core.errors import CheckpointError, Finding
from ckpt_gui.core.formats.file_errors import INDEX_FIX, explain_os_error, show_path
from ckpt_gui.core.formats.folder_names import find_slices, slices_up_to
from ckpt_gui.core.formats.places import exists, folders_in, is_folder, join, list_all, names_in, with_named
from ckpt_gui.core.formats.shard_index import ShardIndex, check_link, read_index
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.remote.address import is_url
from ckpt_gui.dataclasses import dataclass

SUFFIXES = (".safetensors", ".pt", ".pth", ".ckpt", ".bin")
_INSIDE = frozenset(
    (".metadata", "pytorch_model.bin", "pytorch_model.bin.index.json", "consolidated.00.pth", "consolidated.00.pt")
)
OTHER_SUFFIXES = (".gguf", ".npz")
SHARD = re.compile(r"(?P<stem>.+)-(?P<number>\d{4,6})-of-(?P<count>\d{4,6})(?P<suffix>\.[a-z]+)\Z")
_STATE = re.compile(
    r"(training_args|optimizer|optim|scheduler|scaler|rng_state\w*|random_states\w*|recipe_state|trainer_state|"
    r"dataloader\w*|zero_pp_rank\w*)(_\d+)?\.(bin|pt|pth|ckpt)\Z"
)
ORIGINAL = "original"
RANK_ZERO = "consolidated.00.pth"
_SINGLES = ("model.safetensors", "pytorch_model.bin", RANK_ZERO, "consolidated.safetensors")


@dataclass(frozen=True, slots=True)
class Choice:
    """The files of a folder that hold the weights.

    Attributes:
        files: Their names, in order.
        index: The index that names them, or None.
        missing: Shards that ought to be there and are not.
        problems: What the user should know.
        ranks: Files of tensor-parallel ranks, one for each rank up to the last that is there; empty for other models.
    """

    files: tuple[str, ...]
    index: ShardIndex | None = None
    missing: tuple[str, ...] = ()
    problems: tuple[Finding, ...] = ()
    ranks: tuple[str, ...] = ()


def choose(folder: str, index_name: str | None = None, take: str | None = None) -> Choice:
    """Find the weights in a folder.

    Args:
        folder: The folder.
        index_name: The index to go by; None to look for one.
        take: A file of the model to take where there are several: an index, one of its shards, or all of it.

    Raises:
        CheckpointError: There are none, or several.
    """
    names = _list(folder)
    return _choose(folder, names, index_name) if take is None else _taken(folder, names, take)


def _taken(folder: str, names: Sequence[str], take: str) -> Choice:
    """Return the model that a file belongs to."""
    if take not in names:
        text = f"There is no file {safe_text(take, 80)} in {show_path(folder)}."
        raise CheckpointError("not-a-checkpoint", text, fix="Name one of its files with --take.", path=folder)
    if take.endswith(".index.json"):
        return _by_index(folder, take, names)
    wanted = SHARD.match(take)
    if wanted is None:
        return Choice((take,))
    same = [n for n in names if (m := SHARD.match(n)) and _set_of(m) == _set_of(wanted)]
    return _by_number(same) or Choice((take,))


def _set_of(match: re.Match[str]) -> tuple[str, str, str]:
    return match["suffix"], match["stem"], match["count"]


def _choose(folder: str, names: Sequence[str], index_name: str | None) -> Choice:
    index_name = index_name or _pick_index(folder, names)
    if index_name is not None:
        return _by_index(folder, index_name, names)
    for single in _SINGLES:
        if single == RANK_ZERO and (ranks := _ranks(names)):
            return ranks
        if single in names:
            return Choice((single,))
        shards = _by_number(names) if single == "model.safetensors" else None
        if shards is not None:
            return shards
    return _only(folder, names)


def _list(folder: str) -> list[str]:
    if is_url(folder):
        return names_in(folder)
    try:
        with os.scandir(folder) as entries:
            return sorted(e.name for e in entries if not e.is_dir())
    except OSError as error:
        raise explain_os_error(error, folder) from error


def find_inside(folder: str) -> list[str]:
    """Return the folders inside that hold models where the folder itself does not: the wrong level was opened.

    Of several checkpoints of a run the last one comes first.
    """
    found = []
    for name in folders_in(folder):
        names = list_all(join(folder, name)) if is_folder(join(folder, name)) else []
        if any(n in _INSIDE or n.endswith((".safetensors", ".distcp", "_model_states.pt")) for n in names):
            found.append(name)
    models = [name for name in found if not name.startswith("optimizer")] or found
    return sorted(models, key=lambda name: [int(n) for n in re.findall(r"\d{1,15}", name)], reverse=True)


def _pick_index(folder: str, names: Sequence[str]) -> str | None:
    for preferred in ("model.safetensors.index.json", "pytorch_model.bin.index.json"):
        others = [n for n in names if n.endswith(".safetensors.index.json")]
        if preferred in names:
            if preferred.startswith("pytorch") and "model.safetensors" in names:
                return None
            return preferred
        if others and preferred.startswith("model"):
            if len(others) > 1:
                raise _several(folder, others)
            return None if "model.safetensors" in names else others[0]
    return None


def _by_index(folder: str, name: str, names: Sequence[str]) -> Choice:
    index = read_index(folder, name)
    names = with_named(folder, index.shards, names)
    present = frozenset(n for n in names if exists(join(folder, n)))  # a link may lead nowhere
    files = tuple(s for s in index.shards if s in present)
    for shard in files:
        check_link(folder, shard, name)
    missing = tuple(s for s in index.shards if s not in present)
    problems = []
    if name == "model.safetensors.index.json" and "model.safetensors" in present and "model.safetensors" not in files:
        message = (
            f"{show_path(folder)} holds both model.safetensors and shards with an index. The shards are shown here; "
            "transformers loads model.safetensors and never looks at the shards."
        )
        fix = "Remove the one that is stale, or open model.safetensors itself."
        problems.append(Finding("several-models", "warning", message, fix=fix))
    return Choice(files, index, missing, tuple(problems))


def _by_number(names: Iterable[str]) -> Choice | None:
    """Shards that are numbered but have no index: a set that is complete before others, safetensors before others."""
    sets: dict[tuple[str, str, str], list[str]] = {}
    for name in names:
        match = SHARD.match(name)
        if match and match["suffix"] in SUFFIXES:
            sets.setdefault(_set_of(match), []).append(name)
    if not sets:
        return None
    suffix, stem, count = min(sets, key=lambda s: (len(sets[s]) != int(s[2]), SUFFIXES.index(s[0]), s[1:]))
    files = sets[suffix, stem, count]
    width = len(SHARD.match(files[0])["number"])  # type: ignore[index]
    wanted = [f"{stem}-{i:0{width}}-of-{count}{suffix}" for i in range(1, min(int(count), 9999) + 1)]
    missing = tuple(n for n in wanted if n not in files)
    alone = len(wanted) == 1  # one file that only looks like a shard, as torchtune writes it
    name = f"{safe_text(stem, 60)}{suffix}.index.json"
    message = f"{len(files)} shards have no index ({name}); most loaders will not find them."
    problem = Finding(
        "index-missing",
        "warning",
        message,
        fix=INDEX_FIX,
    )
    return Choice(tuple(files), None, missing, () if alone else (problem,))


def _ranks(names: Iterable[str]) -> Choice | None:
    """Return the files of tensor-parallel ranks, as Meta writes them: the last one there says how many there are."""
    found = find_slices(names)
    if not found:
        return None
    wanted = slices_up_to(max(found), found[max(found)])
    missing = tuple(name for rank, name in enumerate(wanted) if rank not in found)
    return Choice(tuple(found[rank] for rank in sorted(found)), None, missing, ranks=wanted)


def _only(folder: str, names: Sequence[str]) -> Choice:
    found = [n for n in names if n.endswith(SUFFIXES) and not _STATE.match(n) and not n.startswith(".")]
    main = [n for n in found if not n.startswith("adapter_")] or found[:1]
    main = main or [n for n in names if n.endswith(OTHER_SUFFIXES) and not n.startswith(".")]
    if len(main) > 1:
        raise _several(folder, main)
    if not main:
        raise _nothing(folder, names)
    return Choice((main[0],))


def _several(folder: str, found: Sequence[str]) -> CheckpointError:
    shown = ", ".join(safe_text(n, 80) for n in found[:6]) + (", …" if len(found) > 6 else "")
    return CheckpointError(
        "several-models",
        f"{show_path(folder)} holds {len(found)} files that may each be a model: {shown}.",
        fix="Open one of them by its name, or name it with --take.",
        path=folder,
    )


def _nothing(folder: str, names: Sequence[str]) -> CheckpointError:
    shown = show_path(folder)
    parts = [n for n in names if n.endswith(".distcp")]
    if parts:
        return CheckpointError(
            "shard-missing",
            f"{shown} holds {len(parts)} parts of a distributed torch checkpoint (.distcp), but not the file "
            "`.metadata` that says what they are parts of.",
            fix="Copy .metadata into the folder; it is written last, so the save may have been interrupted.",
            path=folder,
        )
    inside = [safe_text(name, 80) for name in find_inside(folder)]
    if inside:
        what = f"those in its folder {inside[0]} can be opened"
        if len(inside) > 1:
            what = f"those in {len(inside)} folders can be opened: {', '.join(inside[:4])}{', …' if inside[4:] else ''}"
        text = f"{shown} holds no model weights itself; {what}."
        return CheckpointError("not-a-checkpoint", text, fix=f"Open {inside[0]} instead.", path=folder)
    state = [n for n in names if _STATE.match(n)]
    more = f" It holds training state ({', '.join(state[:3])}); open such a file by its name." if state else ""
    return CheckpointError("not-a-checkpoint", f"{shown} holds no model weights.{more}", path=folder)
