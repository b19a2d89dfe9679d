"""What lies in a folder beside the model that is shown: other sets of shards, a maker's own files, a run's checkpoints.

Loaders disagree on which they take, and a stale set looks as good as a fresh one; so each is named, and `--take FILE`
chooses another.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ckpt_gui.core.errors import Finding
from ckpt_gui.core.formats.file_errors import show_path
from ckpt_gui.core.formats.folder import ORIGINAL, SHARD, Choice
from ckpt_gui.core.formats.places import is_folder, join, list_all
from ckpt_gui.core.keys import safe_text

_NATIVE = re.compile(r"consolidated(\.\d\d\.pth?|(-\d+-of-\d+)?\.safetensors)\Z")
_STEP = re.compile(r"checkpoint-\d{1,12}\Z")
_CONTAINERS = (".safetensors", ".bin")
_STEMS = ("model", "pytorch_model")
TAKE = "Remove what is stale; --take FILE shows the model that a file belongs to."


def others_beside(folder: str, choice: Choice) -> list[Finding]:
    """Return a finding for each other model in a folder."""
    names = list_all(folder)
    return [
        *_native(folder, names, choice),
        *_sets(folder, names, choice),
        *_containers(names, choice),
        *_steps(folder, names),
    ]


def _native(folder: str, names: Sequence[str], choice: Choice) -> list[Finding]:
    """Name a second model that makers put beside the Hugging Face files: in their own layout, or in `original`."""
    if choice.ranks or any(_NATIVE.match(name) for name in choice.files):
        return []
    found = [name for name in names if _NATIVE.match(name)]
    original = list_all(join(folder, ORIGINAL)) if ORIGINAL in names else []
    inside = [name for name in original if _NATIVE.match(name)]
    if not found and not inside:
        return []
    shown = safe_text(found[0], 80) if found else f"the folder {ORIGINAL}"
    message = (
        f"{show_path(folder)} holds a second model beside the one that is shown, in its maker's own layout: {shown}."
    )
    fix = f"Open {shown} by itself to see it; check --against compares the two."
    return [Finding("several-models", "info", message, fix=fix)]


def _sets(folder: str, names: Sequence[str], choice: Choice) -> list[Finding]:
    """Name shards of the same container that are not among those that are shown."""
    own = {name[name.rfind(".") :] for name in choice.files}
    here = {(m["stem"], m["count"]) for m in map(SHARD.match, (*choice.files, *choice.missing)) if m}
    known = {*choice.files, *choice.missing}  # what is missing is told of, though a folder may have its name
    found = [m for m in map(SHARD.match, names) if m and m["suffix"] in own and m.string not in known]
    strays = [m.string for m in found if (m["stem"], m["count"]) in here]
    others = [m.string for m in found if (m["stem"], m["count"]) not in here and not _NATIVE.match(m.string)]
    findings = []
    if strays:
        what = f"{_several(strays)} in {show_path(folder)} and not in the index"
        message = f"{what}; nothing of it is read here, nor by other loaders."
        findings.append(Finding("shard-unindexed", "warning", message, fix="Mend the index, or remove what is stale."))
    if others:
        message = f"{_several(others)} beside the {len(choice.files):,} that are shown, and of another set of shards."
        findings.append(Finding("several-models", "warning", message, fix=TAKE))
    return findings


def _containers(names: Sequence[str], choice: Choice) -> list[Finding]:
    """Name the files of a second container: usually the same model once more, sometimes a stale one."""
    own = {name[name.rfind(".") :] for name in choice.files}
    if choice.ranks or not own <= set(_CONTAINERS):
        return []
    others = [suffix for suffix in _CONTAINERS if suffix not in own]
    found = [n for n in names if n in [stem + suffix for suffix in others for stem in _STEMS]]
    found += [m.string for m in map(SHARD.match, names) if m and m["suffix"] in others and m["stem"] in _STEMS]
    if not found:
        return []
    lies = f"{safe_text(found[0], 80)} lies" if len(found) == 1 else f"{len(found):,} files such as {found[0]} lie"
    message = (
        f"{lies} beside what is shown, in another container: the same model once more, or a stale one. Most loaders "
        "take the safetensors files where there are both."
    )
    return [Finding("several-models", "info", message, fix=TAKE)]


def _several(names: Sequence[str]) -> str:
    first = safe_text(names[0], 80)
    return f"{first} lies" if len(names) == 1 else f"{len(names):,} shards such as {first} lie"


def _steps(folder: str, names: Sequence[str]) -> list[Finding]:
    """Name the checkpoints of the run that a trainer keeps inside the folder of the final model."""
    found = sorted((name for name in names if _STEP.match(name)), key=lambda name: int(name.partition("-")[2]))
    found = [name for name in found if is_folder(join(folder, name))]
    if not found:
        return []
    kept = ", ".join(found[-3:]) + (f" and {len(found) - 3:,} more" if len(found) > 3 else "")
    message = f"Inside {show_path(folder)} lie checkpoints of a training run ({kept}), which are models of their own."
    return [Finding("several-models", "info", message, fix="Open such a folder by itself to see it.")]
