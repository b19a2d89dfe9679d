"""Find the sizes of the model: from its config where there is one, else from the shapes in the file.

`hidden`, `ffn`, `vocab` and `layers` can be read off the tensors. Head counts can not: q's rows are heads × head_dim,
and only the product is stored. They come from the config or from the user, and are never guessed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from ckpt_gui.core.errors import Finding
from ckpt_gui.core.families.schema import EXTRA
from ckpt_gui.core.keys import anonymous, bind, index_names, indices, template
from ckpt_gui.core.passes.recognise import known_heads
from ckpt_gui.core.plan import Entry, Plan
from ckpt_gui.core.shape_ops import symbols_of

MAX_LAYERS = 10_000  # a config that says more is not believed; names can not say more (see keys)
QUERY, KEY = "heads*head_dim", "kv_heads*head_dim"


def shape_votes(plan: Plan) -> dict[str, Counter[int]]:
    """Return, for each symbol or product in the slots' shapes, which sizes the tensors have and how often."""
    votes: dict[str, Counter[int]] = {}
    if plan.family is None:
        return votes
    slots = plan.family.by_slot
    for entry in plan.entries:
        slot = slots.get(template(entry.key))
        if slot and len(slot.shape) == len(entry.output.shape):
            for symbol, size in zip(slot.shape, entry.output.shape, strict=True):
                votes.setdefault(symbol, Counter())[size] += 1
    return votes


def find_dims(plan: Plan) -> Plan:
    """Set dims and where each comes from."""
    if plan.family is None:
        return plan
    votes = shape_votes(plan)
    from_file = {symbol: min(counter, key=lambda size: (-counter[size], size)) for symbol, counter in votes.items()}
    given = dict(plan.config.dims) if plan.config else {}
    dims = {name: size for name, size in from_file.items() if name.isidentifier()}
    origins = dict.fromkeys(dims, "shapes")
    dims["vocab"] = _vocab(plan, given) or dims.get("vocab", 0)
    dims["layers"], origins["layers"] = _layers(plan.entries, given, plan)
    experts = _count(plan.entries, plan, "expert")
    if experts:
        dims["experts"], origins["experts"] = max(experts, min(given.get("experts", 0), MAX_LAYERS)), "shapes"
    dims |= _other_counts(plan)
    heads, where = _head_dims(plan, given, from_file)
    if not heads and plan.known and not plan.policy.heads:
        heads, origin = known_heads(plan)
        where = dict.fromkeys(heads, origin)
    dims.update(heads)
    origins.update(where)
    dims |= {name: given[name] for name in _parts_of_sizes(plan) if name in given and name not in dims}
    plan = plan.replace(dims={k: v for k, v in dims.items() if v}, dims_from=origins)
    return plan.found(*_mismatches(plan, given, from_file))


def _vocab(plan: Plan, given: Mapping[str, int]) -> int | None:
    """Return the rows of the embedding, or of the head where there is no embedding."""
    rows = {role: _rows(plan, role) for role in ("embedding", "head")}
    if rows["embedding"] and rows["head"] and given.get("vocab") == rows["head"] != rows["embedding"]:
        return rows["head"]
    return rows["embedding"] or rows["head"]


def _rows(plan: Plan, role: str) -> int | None:
    slot = next((s for s in plan.family.slots if s.role == role), None) if plan.family else None
    hub = slot.key if slot and slot.shape[:1] in (("vocab",), ()) else None
    entry = next((e for e in plan.entries if e.key == hub), None)
    return entry.output.shape[0] if entry and entry.output.shape else None


def _layers(entries: tuple[Entry, ...], given: Mapping[str, int], plan: Plan) -> tuple[int, str]:
    beyond = _extra_layers(plan)
    counted = tuple(e for e in entries if not _beyond(e, plan, beyond)) if beyond else entries
    found = _count(counted, plan, "layer")
    stated = given.get("layers", 0)
    if found <= stated <= MAX_LAYERS:
        return stated, plan.config.origin if plan.config else "shapes"
    return found, "shapes"


def _count(entries: tuple[Entry, ...], plan: Plan, index: str) -> int:
    """Return one more than the highest number that an index (`layer`, `expert`) has in the keys; 0 if there is none."""
    assert plan.family is not None
    places = {
        anonymous(slot.key): index_names(slot.key).index(index)
        for slot in plan.family.slots
        if index in index_names(slot.key)
    }
    shapes = ((e.key, places.get(template(e.key))) for e in entries)
    return max((indices(key)[place] + 1 for key, place in shapes if place is not None), default=0)


def _parts_of_sizes(plan: Plan) -> set[str]:
    """Return the dims of which sizes are made and that no tensor shows alone, but for the heads, which are judged."""
    assert plan.family is not None
    symbols = {symbol for slot in plan.family.slots for symbol in slot.shape}
    return {name for symbol in symbols for name in symbols_of(symbol)} - {"heads", "kv_heads", "head_dim"}


def _beyond(entry: Entry, plan: Plan, numbers: set[int]) -> bool:
    """Return True if a tensor is in a layer that the model does not count: one that predicts further tokens."""
    slot = plan.family.by_slot.get(template(entry.key)) if plan.family else None
    return slot is not None and "{layer}" in slot.key and bind(slot.key, entry.key)["layer"] in numbers


def _extra_layers(plan: Plan) -> set[int]:
    """Return the layers of the kind `EXTRA`."""
    assert plan.family is not None
    names = {anonymous(s.key): s.key for s in plan.family.slots if s.group == EXTRA}
    keys = (e.key for e in plan.entries if names)
    return {bind(names[t], key)["layer"] for key in keys if (t := template(key)) in names}


def _other_counts(plan: Plan) -> dict[str, int]:
    """Return how many blocks other parts of the model have, such as an image encoder: one more than the highest."""
    assert plan.family is not None
    if plan.family.exact:
        return {}
    names = {name for slot in plan.family.slots for name in index_names(slot.key)} - {"layer", "expert"}
    return {name + "s": _count(plan.entries, plan, name) for name in names}


def _head_dims(
    plan: Plan, given: Mapping[str, int], from_file: Mapping[str, int]
) -> tuple[dict[str, int], dict[str, str]]:
    """Return heads, kv_heads and head_dim if they are known and agree with the rows of q and k, else nothing."""
    policy, origin = plan.policy, plan.config.origin if plan.config else ""
    heads = policy.heads or given.get("heads")
    rows, kv_rows = from_file.get(QUERY), from_file.get(KEY)
    if not heads or heads < 1 or (rows and rows % heads):
        return {}, {}
    head_dim = rows // heads if rows else given.get("head_dim", 0)
    if not policy.heads and head_dim != given.get("head_dim", head_dim):
        return {}, {}  # one of the two is wrong, and nobody knows which
    stated = policy.kv_heads or (given.get("kv_heads") if not policy.heads else None)
    kv_heads = kv_rows // head_dim if kv_rows and head_dim and kv_rows % head_dim == 0 else stated
    if policy.kv_heads and kv_heads != policy.kv_heads:
        return {}, {}
    found = {"heads": heads, "kv_heads": kv_heads or 0, "head_dim": head_dim}
    source = "the user" if policy.heads else origin
    where = {"heads": source, "kv_heads": source if kv_heads == stated else "shapes", "head_dim": "shapes"}
    return found, where


def _mismatches(plan: Plan, given: Mapping[str, int], from_file: Mapping[str, int]) -> list[Finding]:
    """Return findings where the config and the tensors disagree."""
    if plan.config is None:
        return []
    facts = {name: plan.dims[name] for name in ("hidden", "ffn", "vocab", "layers", "kv_heads") if name in plan.dims}
    wrong = [f"{name} {given[name]}, tensors {size}" for name, size in facts.items() if given.get(name, size) != size]
    rows, heads = from_file.get(QUERY), given.get("heads")
    if rows and heads and rows != heads * given.get("head_dim", rows // heads):
        wrong.append(f"{heads} heads of {given.get('head_dim')}, tensors {rows} query rows")
    if not wrong:
        return []
    text = f"{plan.config.origin} does not agree with the tensors: {'; '.join(wrong)}."
    return [Finding("config-mismatch", "warning", text, fix="An export's config follows the tensors.")]
