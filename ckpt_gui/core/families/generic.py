"""Families without a table: what transformers itself would write for a config.json.

With the extra `hf` installed, a child process (`generic_child`) builds the model without memory for it and tells names
and shapes; the answer is kept in the user's cache. The family that is made of it has one layout, Hugging Face's.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from ckpt_gui.core.errors import Cancelled
from ckpt_gui.core.families.rule_schema import Rule
from ckpt_gui.core.families.schema import Family, Ignored, Layout, Slot
from ckpt_gui.core.keys import safe_text, template
from ckpt_gui.core.version import installed
from ckpt_gui.dataclasses import dataclass, replace

TIMEOUT = 300.0  # seconds: importing transformers alone takes some on a slow disk
MOST_TENSORS = 2_000_000
INSTALL = "pip install 'ckpt_gui[hf]'"
CHILD = ["-m", "ckpt_gui.core.families.generic_child"]
_SCHEMA = 3
_BUFFER = "holds what transformers makes itself when it builds the model, and does not save"
_ALWAYS = (r"(^|\.)rotary_emb\.inv_freq$", r"(^|\.)position_ids$")  # what older versions saved


@dataclass(frozen=True, slots=True)
class Saved:
    """What transformers writes for a config.

    Attributes:
        model_type: The config's.
        tensors: Names and shapes on disk.
        embedding: Name of the input embedding, or None.
        head: Name of the output head, or None; not among the tensors where it is tied.
        tied: Whether the two are tied, the class default resolved.
        kind: Name of the model's class.
        version: Of transformers.
        problem: Why nothing is known; empty if all is well.
        buffers: Names of what the model holds beside its weights and `save_pretrained` does not write.
        ignorable: Patterns of names that transformers leaves alone in a file.
    """

    model_type: str
    tensors: tuple[tuple[str, tuple[int, ...]], ...] = ()
    embedding: str | None = None
    head: str | None = None
    tied: bool = False
    kind: str = ""
    version: str = ""
    problem: str = ""
    buffers: tuple[str, ...] = ()
    ignorable: tuple[str, ...] = ()


def available() -> bool:
    """Return True if transformers is installed; it is not imported."""
    return importlib.util.find_spec("transformers") is not None


def saved_for(
    config: Mapping[str, Any],
    cancelled: Callable[[], bool] | None = None,
    waiting: Callable[[float], None] | None = None,
) -> Saved:
    """Return what transformers writes for a config.json, from the cache or from a child process.

    Args:
        config: The config.json.
        cancelled: Asked several times a second.
        waiting: Called as often with the seconds that have gone by.

    Raises:
        Cancelled: `cancelled` said so.
    """
    text = json.dumps(config, sort_keys=True, default=str)
    model_type = str(config.get("model_type"))
    cache = _cache_file(text)
    found = _read(cache) if cache else None
    if found is None:
        found = _ask(text, cancelled, waiting)
        if cache and "problem" not in found:
            _keep(cache, found)
    if "problem" in found:
        return Saved(model_type, problem=str(found["problem"]))
    return _checked(model_type, found)


def _checked(model_type: str, found: Mapping[str, Any]) -> Saved:
    try:
        tensors = tuple((str(name), tuple(int(s) for s in shape)) for name, shape in found["tensors"])
        return Saved(
            model_type, tensors, found["embedding"], found["head"], bool(found["tied"]), str(found["class"]),
            str(found["version"]), "", tuple(map(str, found.get("buffers", ()))),
            tuple(map(str, found.get("ignorable", ()))),
        )  # fmt: skip
    except (KeyError, TypeError, ValueError):
        return Saved(model_type, problem="transformers gave an answer that can not be read")


def _cache_file(text: str) -> Path | None:
    from platformdirs import user_cache_path

    version = installed("transformers")
    if not version:
        return None
    digest = hashlib.sha256(f"{_SCHEMA} {version} {text}".encode()).hexdigest()
    return user_cache_path("ckpt_gui", appauthor=False) / "layouts" / f"{digest}.json"


def _read(path: Path) -> dict[str, Any] | None:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def _keep(path: Path, found: Mapping[str, Any]) -> None:
    """Write the cache; a disk that can not be written to is no fault."""
    part = path.with_suffix(f".{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(json.dumps(found), encoding="utf-8")
        os.replace(part, path)
    except OSError:
        part.unlink(missing_ok=True)


def _ask(
    text: str, cancelled: Callable[[], bool] | None, waiting: Callable[[float], None] | None = None
) -> dict[str, Any]:
    """Run the child; its failure is told in words."""
    offline = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}
    child = subprocess.Popen(
        [sys.executable, *CHILD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **offline, "CUDA_VISIBLE_DEVICES": "", "TOKENIZERS_PARALLELISM": "false"},
    )
    given: bytes | None = text.encode()
    begun = time.monotonic()
    until = begun + TIMEOUT
    while True:
        try:
            out, err = child.communicate(given, timeout=0.2)
            break
        except subprocess.TimeoutExpired:
            given = None
            if waiting:
                waiting(time.monotonic() - begun)
            stop = cancelled is not None and cancelled()
            if not stop and time.monotonic() < until:
                continue
            child.kill()
            child.communicate()
            if stop:
                raise Cancelled from None
            return {"problem": f"transformers did not answer within {TIMEOUT:.0f} seconds"}
    if child.returncode:
        lines = [line for line in err.decode(errors="replace").splitlines() if line.strip()]
        killed = child.returncode < 0 or not lines  # by a signal: what a fault handler prints is no reason
        return {"problem": f"transformers could not build it ({'it was killed' if killed else safe_text(lines[-1])})"}
    try:
        value = json.loads(out)
    except ValueError:
        value = None
    tensors = value.get("tensors") if isinstance(value, dict) else None
    if not isinstance(tensors, list) or len(tensors) > MOST_TENSORS:
        return {"problem": "transformers gave an answer that can not be read"}
    return dict(value)


@lru_cache(maxsize=16)
def family_of(saved: Saved) -> Family:
    """Return a family that expects exactly what transformers writes."""
    slots: dict[str, Slot] = {}
    roles = {saved.embedding: "embedding", saved.head: "head"} if saved.embedding else {}
    names = [name for name, _ in saved.tensors]
    if saved.head and saved.head != saved.embedding:
        names.append(saved.head)
    for name in names:
        slots.setdefault(template(name), Slot(_indexed(name), (), roles.get(name, "")))
    ignored = {template(name): Ignored(_indexed(name), _BUFFER) for name in saved.buffers}
    layout = Layout(
        "hf",
        tuple(Rule(slot.key, slot.key) for slot in slots.values()),
        tuple(found for shape, found in ignored.items() if shape not in slots),
        source=f"transformers {saved.version} {saved.kind}",
    )
    return Family(
        name=saved.model_type,
        title=saved.kind or saved.model_type,
        model_types=(saved.model_type,),
        architecture=saved.kind,
        slots=tuple(slots.values()),
        layouts=(layout,),
        tie_default=saved.tied,
        source=layout.source,
        exact=saved.tensors,
    )


def with_ignorable(layout: Layout, saved: Saved, shapes: Iterable[str]) -> Layout:
    """Return the layout with those stored names ignored, too, that transformers leaves alone when it loads a file.

    Args:
        layout: From `family_of`.
        saved: What transformers said.
        shapes: The templates of the keys in the file.
    """
    patterns = [found for text in (*_ALWAYS, *saved.ignorable) if (found := _compiled(text))]
    known = layout.by_stored.keys() | layout.by_ignored.keys()
    names = [shape for shape in shapes if shape not in known and any(p.search(shape) for p in patterns)]
    more = tuple(Ignored(_indexed_template(shape), _BUFFER) for shape in names)
    return replace(layout, ignored=(*layout.ignored, *more)) if more else layout


def _compiled(pattern: str) -> re.Pattern[str] | None:
    """Return a pattern as transformers means it; None for one that is no pattern, or an odd one."""
    try:
        return re.compile(pattern) if len(pattern) < 200 else None
    except re.error:
        return None


def _indexed(name: str) -> str:
    """Return a key's template with names for its indices: they mean nothing but that they are kept.

    >>> _indexed("model.layers.3.mlp.experts.0.w1.weight")
    'model.layers.{at0}.mlp.experts.{at1}.w1.weight'
    """
    return _indexed_template(template(name))


def _indexed_template(shape: str) -> str:
    parts = shape.split("{}")
    return "".join(part + (f"{{at{i}}}" if i < len(parts) - 1 else "") for i, part in enumerate(parts))
