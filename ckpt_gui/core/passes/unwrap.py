"""Take off the names that wrappers put into keys.

`torch.compile` puts `_orig_mod` before (or inside) a key, FSDP and activation checkpointing theirs, DDP a leading
`module`, a LightningModule the name of its attribute. The four names with an underscore can mean nothing else and go
wherever they stand, as whole segments. `module` and an extra `model` are ordinary words: they go only from the front
of every key that is a weight, and only if the keys then fit a layout better (`model` is also the prefix that Hugging
Face itself uses).
Source: torch `distributed/checkpoint/state_dict.py` does the same with its own list.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from ckpt_gui.core.errors import Finding
from ckpt_gui.core.families.common import common_ignored
from ckpt_gui.core.families.registry import fits, fits_beside
from ckpt_gui.core.key_groups import KeyGroups, group_keys
from ckpt_gui.core.keys import safe_text, template
from ckpt_gui.core.plan import Plan
from ckpt_gui.dataclasses import dataclass, field

ANYWHERE: dict[str, str] = {
    "_orig_mod": "torch.compile",
    "_fsdp_wrapped_module": "FSDP",
    "_checkpoint_wrapped_module": "activation checkpointing",
    "_forward_module": "a Lightning strategy",
}
LEADING: dict[str, str] = {"module": "DDP, DataParallel or an averaged model", "model": "the attribute of a trainer"}
_TWIN = "module."  # before the key of a copy: it counts as the same tensor even where it stays
MAX_LEAD = 8  # leading words that are tried together: `model.module.` is seen only when both are gone
Segments = tuple[tuple[int, str], ...]  # (position in the stored key, segment), those that are kept


@dataclass(frozen=True, slots=True)
class Unwrapped:
    """Keys without wrappers.

    Attributes:
        names: Stored key → key without wrappers.
        wrappers: Names removed, in the order in which they went.
        collisions: Groups of stored keys that would become one.
    """

    names: Mapping[str, str]
    wrappers: tuple[str, ...] = ()
    collisions: tuple[tuple[str, ...], ...] = field(default=())


@dataclass(frozen=True, slots=True)
class Stripped:
    """Templates without wrappers.

    Attributes:
        changed: What is kept of each template that loses something.
        wrappers: Names removed, in the order in which they went.
    """

    changed: Mapping[str, Segments]
    wrappers: tuple[str, ...]

    def bare(self, shape: str) -> str:
        """Return a template as it is without wrappers."""
        kept = self.changed.get(shape)
        return shape if kept is None else ".".join(name for _, name in kept)


def unwrap_keys(keys: Sequence[str]) -> Unwrapped:
    """Return the keys without wrappers, to a fixpoint.

    The work is done once for each template (a model of 500,000 tensors has some dozens), then carried over to the keys.

    >>> unwrap_keys(["module._orig_mod.norm.weight", "module._orig_mod.output.weight"]).names
    {'module._orig_mod.norm.weight': 'norm.weight', 'module._orig_mod.output.weight': 'output.weight'}
    """
    groups = group_keys(keys)
    stripped = strip(groups)
    names = dict(zip(keys, keys, strict=True))
    for shape, segments in stripped.changed.items():
        for place in groups[shape].places:
            names[keys[place]] = _apply(keys[place], segments)
    return Unwrapped(names, stripped.wrappers, _collisions(names))


def strip(groups: KeyGroups) -> Stripped:
    """Return what is left of keys without wrappers, to a fixpoint, for each of their templates."""
    kept = {shape: tuple(enumerate(shape.split("."))) for shape in groups}
    counts = Counter({shape: len(group.places) for shape, group in groups.items()})
    wrappers: dict[str, None] = {}
    while True:
        kept = {shape: _strip_anywhere(segments, wrappers) for shape, segments in kept.items()}
        lead = _lead(kept, counts)
        if not lead:
            break
        wrappers.update(dict.fromkeys(lead))
        kept = {
            shape: segments[len(lead) :] if _starts(segments, lead) else segments for shape, segments in kept.items()
        }
    changed = {shape: segments for shape, segments in kept.items() if len(segments) <= shape.count(".")}
    return Stripped(changed, tuple(wrappers))


def _apply(key: str, segments: Segments) -> str:
    """Return the key with only the segments that are kept."""
    parts = key.split(".")
    return ".".join(parts[i] for i, _ in segments)


def _strip_anywhere(segments: Segments, wrappers: dict[str, None]) -> Segments:
    removed = [name for _, name in segments if name in ANYWHERE]
    if not removed or len(removed) == len(segments):
        return segments
    wrappers.update(dict.fromkeys(removed))
    return tuple(s for s in segments if s[1] not in ANYWHERE)


def _starts(segments: Segments, words: tuple[str, ...]) -> bool:
    return len(segments) > len(words) and all(s[1] == word for s, word in zip(segments, words, strict=False))


def _lead(kept: dict[str, Segments], counts: Counter[str]) -> tuple[str, ...]:
    """Return the words that are wrappers at the front of every key that is a weight; empty if there are none."""
    before = _named(kept, counts)
    best: tuple[str, ...] = ()
    most = fitting = fits(before)
    for words in _leads(kept):
        inside = {shape: segments for shape, segments in kept.items() if _starts(segments, words)}
        outside = _named({shape: s for shape, s in kept.items() if shape not in inside}, counts)
        freed = _named({shape: segments[len(words) :] for shape, segments in inside.items()}, counts)
        if fits(freed) > most and not fits_beside(freed, outside):
            most, best = fits(freed), words
        if words == ("module",) and fitting == 0 and not best and all(map(common_ignored, outside)):
            best = words  # an unknown layout: every key has it
    return best


def _leads(kept: dict[str, Segments]) -> list[tuple[str, ...]]:
    """Return the rows of leading words that some key has, the shortest first."""
    found: set[tuple[str, ...]] = set()
    for segments in kept.values():
        words: tuple[str, ...] = ()
        for _, name in segments[: min(len(segments) - 1, MAX_LEAD)]:
            if name not in LEADING or len(found) >= 8 * MAX_LEAD:
                break
            words = (*words, name)
            found.add(words)
    return sorted(found, key=lambda words: (len(words), words))


def _named(kept: dict[str, Segments], counts: Counter[str]) -> Counter[str]:
    """Return how many keys have each name."""
    names: Counter[str] = Counter()
    for shape, segments in kept.items():
        names[".".join(s for _, s in segments)] += counts[shape]
    return names


def _collisions(names: Mapping[str, str]) -> tuple[tuple[str, ...], ...]:
    """Return the keys that have, or would have without a leading `module`, one name: two copies of one tensor."""
    if len(set(names.values())) == len(names) and not any(name.startswith(_TWIN) for name in names.values()):
        return ()
    groups: dict[str, list[str]] = {}
    for key, name in names.items():
        groups.setdefault(name, []).append(key)
    for key, name in names.items():
        word, _, rest = name.partition(".")
        if word == "module" and rest in groups and fits(Counter([template(rest)])):
            groups[rest].append(key)
    return tuple(tuple(group) for group in groups.values() if len(group) > 1)


def unwrap(plan: Plan) -> Plan:
    """Take the wrappers off every key; keys that would fall together keep their stored names and block."""
    if "unwrap" in plan.policy.skip or not plan.entries:
        return plan
    if not strip(plan.groups).changed and not any(shape.startswith(_TWIN) for shape in plan.groups):
        return plan
    result = unwrap_keys([e.key for e in plan.entries])
    stuck = {key for group in result.collisions for key in group}
    changed = [e.key for e in plan.entries if result.names[e.key] != e.key and e.key not in stuck]
    renamed = frozenset(changed)
    entries = tuple(e.renamed(result.names[e.key]) if e.key in renamed else e for e in plan.entries)
    plan = plan.replace(entries=entries, wrappers=result.wrappers if changed else ())
    plan = plan.found(*map(_collision, result.collisions))
    return _note_wrappers(plan, changed) if changed else plan


def _note_wrappers(plan: Plan, changed: list[str]) -> Plan:
    makers = ", ".join(f"`{name}` ({(ANYWHERE | LEADING)[name]})" for name in plan.wrappers)
    all_ = "All" if len(changed) == len(plan.entries) else f"{len(changed)} of"
    text = f"{all_} {len(plan.entries)} keys carry names of wrappers: {makers}."
    fix = "fix takes them off, as whole segments; no value changes."
    return plan.explained(text).found(Finding("wrapper-prefix", "warning", text, tuple(changed), fix))


def _collision(group: tuple[str, ...]) -> Finding:
    both = " and ".join(f"`{safe_text(k)}`" for k in group)
    return Finding(
        "key-collision",
        "error",
        f"Without wrappers {both} would have the same name: the file holds two copies of this tensor.",
        group,
        "Nothing is written until you leave one of them out; compare the two to see which was trained.",
        blocking=True,
    )
