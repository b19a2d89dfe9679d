"""Compare what is there with what the family expects: names, shapes, types.

Complete means that every expected tensor is there with its expected shape; the message says loudly when it is not.
Tensors are named to the user in the file's own layout.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from ckpt_gui.core.dtypes import BY_NAME
from ckpt_gui.core.entry import Entry
from ckpt_gui.core.errors import Finding
from ckpt_gui.core.families.schema import Layout
from ckpt_gui.core.key_groups import KeyGroup
from ckpt_gui.core.keys import anonymous, indices, safe_text, template
from ckpt_gui.core.passes.expectation import Expected, Wanted, expected_slots, stored_keys, stored_name
from ckpt_gui.core.passes.recognise import told_config
from ckpt_gui.core.passes.unwrap import unwrap_keys
from ckpt_gui.core.plan import Plan
from ckpt_gui.core.program_limits import refused_by_transformers
from ckpt_gui.core.tensors import TensorSpec

_SHARD = re.compile(r"-\d{5}-of-(\d{5})\.")  # model-00001-of-00003.safetensors


def check(plan: Plan) -> Plan:
    """Add findings on completeness and types, and set `missing`."""
    if plan.family is None or plan.layout is None or plan.adapter is not None:
        return plan.found(*_types(plan))
    missing, wrong = _exact(plan) if plan.family.exact else _by_slots(plan)
    plan = plan.replace(missing=tuple(missing))
    coded = _coded(plan)
    return plan.found(
        *_missing(plan, coded),
        *_shapes(plan, wrong, coded),
        *_unexpected(plan, coded),
        *_types(plan),
        *_no_config(plan),
        *refused_by_transformers(plan, plan.layout),
    )


def _by_slots(plan: Plan) -> tuple[list[TensorSpec], list[tuple[Entry, Wanted]]]:
    """Return the expected tensors that are not there, and those with another shape than the expected one."""
    missing: list[TensorSpec] = []
    wrong: list[tuple[Entry, Wanted]] = []
    common = _common_dtype(plan)
    for slot in expected_slots(plan):
        group = plan.groups.get(slot.template)
        shape = tuple(size or 0 for size in slot.shape)
        missing += [TensorSpec(slot.name(numbers), common, shape) for numbers in slot.lacks(group)]
        if group is not None:
            wrong += [(entry, slot.shape) for entry in _misshapen(plan, group, slot)]
    return missing, wrong


def _misshapen(plan: Plan, group: KeyGroup, slot: Expected) -> Iterator[Entry]:
    """Yield the entries of a slot that have another shape than the expected one, in the order of their numbers."""
    shapes = {plan.entries[place].output.shape for place in group.places}
    misfits = {shape for shape in shapes if not _fits(shape, slot.shape)}
    if misfits:
        places = dict(zip(group.numbers(), group.places, strict=True))
        found = (plan.entries[places[numbers]] for numbers in slot.numbers() if numbers in places)
        yield from (entry for entry in found if entry.output.shape in misfits)


def _exact(plan: Plan) -> tuple[list[TensorSpec], list[tuple[Entry, Wanted]]]:
    """Return what `_by_slots` does for a family that lists every tensor."""
    assert plan.family is not None
    by_key = {e.key: e for e in plan.entries}
    common = _common_dtype(plan)
    missing = [TensorSpec(key, common, shape) for key, shape in plan.family.exact if key not in by_key]
    there = ((by_key[key], shape) for key, shape in plan.family.exact if key in by_key)
    return missing, [(entry, shape) for entry, shape in there if not _fits(entry.output.shape, shape)]


def _fits(shape: tuple[int, ...], wanted: tuple[int | None, ...]) -> bool:
    return len(shape) == len(wanted) and all(w is None or w == s for s, w in zip(shape, wanted, strict=True))


def _common_dtype(plan: Plan) -> str:
    return Counter(e.output.dtype for e in plan.entries).most_common(1)[0][0] if plan.entries else "bf16"


def _missing(plan: Plan, coded: frozenset[str]) -> list[Finding]:
    if not plan.missing:
        return []
    assert plan.layout is not None
    doubled = _doubled(plan)
    lost = [s for s in plan.missing if stored_name(plan.layout, s.key) not in doubled]
    lost = [s for s in lost if s.key.rpartition(".")[0] not in coded]
    if not lost:
        return []
    there = {e.key for e in plan.unmapped}
    names = tuple(_lost_name(plan.layout, spec.key, there) for spec in lost)
    layers = Counter(n[0] for spec in lost if (n := indices(spec.key)))
    per_layer = sum(1 for r in plan.layout.rules if "{layer}" in r.name and not r.name.endswith(".bias"))
    whole = sorted(n for n, count in layers.items() if 0 < per_layer <= count)
    total = len(plan.entries) + len(names)
    are = "is" if len(names) == 1 else "are"
    text = f"{len(names)} of {total} expected tensors {are} missing: `{safe_text(names[0])}`"
    text += f" and {len(names) - 1} more" if len(names) > 1 else ""
    text += f" (all of layer {', '.join(map(str, whole[:8]))})" if whole else ""
    return [Finding("missing-tensor", "error", text + ".", names, _missing_advice(plan), blocking=True)]


def _lost_name(layout: Layout, hub: str, there: set[str]) -> str:
    """Return the stored name of a lost hub tensor: of its parts the first that is not there."""
    rule = layout.rule_of(hub)
    names = stored_keys(rule, hub) if rule else (hub,)
    return next((name for name in names if name not in there), names[0])


def _doubled(plan: Plan) -> set[str]:
    """Return the names of tensors that are there twice: a collision says so, they are not lost."""
    keys = [k for f in plan.findings if f.code == "key-collision" for k in f.keys]
    return {name for key in keys for name in unwrap_keys([key]).names.values()}


def _missing_advice(plan: Plan) -> str:
    assert plan.family is not None
    if any(d.kind == "user" for d in plan.dropped):
        return "Some tensors were left out by your choice: take in again those that the model needs."
    if len(plan.missing) == 1 and plan.missing[0].key == plan.family.role("head"):
        return (
            "If the model is known to be tied, --tie copy writes the embedding as its head; if it makes embeddings of "
            "texts, --tie none leaves it without one; else the head is lost."
        )
    if shard := _one_of_many(plan):
        return f"This is one shard of {shard}: open the folder, or the index file beside it."
    if wrapped := _wrapped_twin(plan):
        return f"`{safe_text(wrapped)}` seems to be one of them under the name of a wrapper that not every key carries."
    return "Look for a shard that was lost or an interrupted save; nothing can be written without these tensors."


def _one_of_many(plan: Plan) -> int:
    """Return how many shards there are by the name of the one file that was opened; 0 if it names none."""
    files = plan.source.files
    found = _SHARD.search(files[0].name) if len(files) == 1 else None
    return int(found[1]) if found and int(found[1]) > 1 else 0


def _wrapped_twin(plan: Plan) -> str:
    """Return a stored key that would be a missing tensor without its first segment; empty if there is none."""
    assert plan.layout is not None
    names = {stored_name(plan.layout, spec.key) for spec in plan.missing}
    return next((e.ref.key for e in plan.unmapped if e.key.partition(".")[2] in names), "")


def _shapes(plan: Plan, wrong: list[tuple[Entry, Wanted]], coded: frozenset[str]) -> list[Finding]:
    # Several codes may lie in one number: their shape is none of the weight's.
    wrong = [(e, shape) for e, shape in wrong if BY_NAME[e.output.dtype].kind == "float" or _module(e.key) not in coded]
    if not wrong:
        return []
    entry, wanted = wrong[0]
    have, want = (" × ".join("?" if s is None else f"{s:,}" for s in shape) for shape in (entry.output.shape, wanted))
    text = f"`{safe_text(entry.ref.key)}` has the shape {have or 'of a single number'}, where {want} is expected"
    text += f"; so have {len(wrong) - 1} more" if len(wrong) > 1 else ""
    keys = tuple(e.ref.key for e, _ in wrong)
    fix = "Compare the file with the config and the base model; nothing can be written while shapes do not fit."
    return [Finding("shape-mismatch", "error", text + ".", keys, fix, blocking=True)]


def _unexpected(plan: Plan, coded: frozenset[str]) -> list[Finding]:
    said = {key for f in plan.findings if f.code == "key-collision" for key in f.keys}
    loose = [e for e in plan.unmapped if e.ref.key not in said and (not coded or _module(e.key) not in coded)]
    if not loose:
        return []
    keys = tuple(e.ref.key for e in loose)
    first = f"`{safe_text(keys[0])}`"
    what = f"{len(keys):,} tensors, such as {first}, fit" if len(keys) > 1 else f"{first} fits"
    text = f"{what} no part of the expected layout."
    fix = "An export carries it along as it is called here; in the window it can be ticked to be left out."
    return [Finding("unexpected-tensor", "warning", text, keys, fix)]


def _coded(plan: Plan) -> frozenset[str]:
    """Return the modules whose weights are stored as codes and scales: these are neither lost nor unexpected."""
    keys = {key for f in plan.findings if f.code == "quantised" and f.blocking for key in f.keys}
    return frozenset(_module(e.key) for e in plan.weights if e.ref.full_key in keys) if keys else frozenset()


def _module(key: str) -> str:
    """Return the module of a tensor, or of a part of one (`….weight.absmax` of bitsandbytes)."""
    head, found, _ = key.partition(".weight.")
    return head if found else key.rpartition(".")[0]


def _types(plan: Plan) -> list[Finding]:
    if any(f.code == "quantised" for f in plan.findings):
        return []  # codes and scales have types of their own
    own = {anonymous(s.key) for s in plan.family.slots if s.own_type} if plan.family else set()
    counted = [e for e in plan.entries or plan.unmapped if not own or template(e.key) not in own]
    counts = Counter(e.output.dtype for e in counted)
    floats = {name: n for name, n in counts.items() if BY_NAME[name].kind == "float"}
    found = []
    if len(floats) > 1:
        rare = min(floats, key=lambda name: floats[name])
        keys = tuple(e.ref.key for e in counted if e.output.dtype == rare)
        mix = ", ".join(f"{n} {name}" for name, n in sorted(floats.items(), key=lambda item: -item[1]))
        fix = "It may be meant so (norms in fp32); --dtype bf16 casts all."
        found.append(Finding("dtype-mixed", "warning", f"The tensors have several types: {mix}.", keys, fix))
    stated = plan.config.dtype if plan.config and plan.config.is_hf else None
    if plan.layout and stated and plan.layout.name == "hf" and floats and stated not in floats:
        text = f"{plan.config.origin if plan.config else ''} says {stated}; the tensors are {', '.join(floats)}."
        found.append(Finding("config-mismatch", "warning", text, fix="An export's config follows the tensors."))
    return found


def _no_config(plan: Plan) -> list[Finding]:
    if plan.config is not None or any(f.code == "config-mismatch" for f in plan.findings):
        return []
    if told := told_config(plan):
        text = f"No config.json or params.json lies beside the weights; that of an export is {told}."
        return [Finding("config-missing", "info", text, fix="Name one with --config FILE if it was trained otherwise.")]
    settled = plan.policy.heads or (plan.known and "heads" in plan.dims)
    lost = "the rotary base" if settled else "head counts and rotary base"
    text = f"No config.json or params.json lies beside the weights: {lost} can not be known."
    fix = "Name one with --config FILE (fix takes a folder that has it, too, with --base DIR)"
    fix += "." if settled else "; head counts alone with --heads."
    return [Finding("config-missing", "info", text, fix=fix)]
