"""Find the sizes of the model: from its config where there is one, else from the shapes in the file.

`hidden`, `ffn`, `vocab` and `layers` can be read off the tensors. Head counts can not: q's rows are heads × head_dim,
and only the product is stored. They come from the config or from the user, and are never guessed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

from ckpt_gui.core.bulk import tally
from ckpt_gui.core.dtypes import BY_NAME
from ckpt_gui.core.errors import Finding
from ckpt_gui.core.families.schema import EXTRA
from ckpt_gui.core.keys import anonymous, index_names
from ckpt_gui.core.passes.recognise import known_sizes
from ckpt_gui.core.plan import Plan
from ckpt_gui.core.symbols import symbols_of

MAX_LAYERS = 10_000  # a config that says more is not believed; names can not say more (see keys)
Numbers = Mapping[str, tuple[frozenset[int], ...]]
QUERY, KEY = "heads*head_dim", "kv_heads*head_dim"


def shape_votes(plan: Plan) -> dict[str, Counter[int]]:
    """Return, for each symbol or product in the slots' shapes, which sizes the tensors have and how often."""
    votes: dict[str, Counter[int]] = {}
    if plan.family is None:
        return votes
    slots = plan.family.by_slot
    for name, group in plan.groups.items():
        slot = slots.get(name)
        outputs = (plan.entries[at].output for at in group.places) if slot else ()
        for (dtype, shape), count in tally((spec.dtype, spec.shape) for spec in outputs).items():
            if slot and len(slot.shape) == len(shape) and BY_NAME[dtype].kind == "float":  # of codes they tell nothing
                for symbol, size in zip(slot.shape, shape, strict=True):
                    votes.setdefault(symbol, Counter())[size] += count
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
    numbers = _index_numbers(plan)
    dims["layers"], origins["layers"] = _layers(numbers, given, plan)
    experts = _count(numbers, plan, "expert")
    if experts:
        dims["experts"], origins["experts"] = max(experts, min(given.get("experts", 0), MAX_LAYERS)), "shapes"
    dims |= _other_counts(numbers, plan)
    heads, where = _head_dims(plan, given, from_file)
    if not heads and plan.known and not plan.policy.heads:
        sizes, origin = known_sizes(plan)
        heads = {name: size for name, size in sizes.items() if name not in dims}
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
    entry = plan.entry(hub)
    return entry.output.shape[0] if entry and entry.output.shape else None


def _layers(numbers: Numbers, given: Mapping[str, int], plan: Plan) -> tuple[int, str]:
    found = _count(numbers, plan, "layer", _extra_layers(numbers, plan))
    stated = given.get("layers", 0)
    if found <= stated <= MAX_LAYERS:
        return stated, plan.config.origin if plan.config else "shapes"
    return found, "shapes"


def _index_numbers(plan: Plan) -> Numbers:
    """Return, for each template, which numbers its keys have at each index."""
    return {name: tuple(map(frozenset, group.columns)) for name, group in plan.groups.items()}


def _count(numbers: Numbers, plan: Plan, index: str, without: Collection[int] = ()) -> int:
    """Return one more than the highest number that an index (`layer`, `expert`) has in the keys; 0 if there is none.

    Numbers in `without` do not count.
    """
    assert plan.family is not None
    found: set[int] = set()
    for slot in plan.family.slots:
        names = index_names(slot.key)
        if index in names and (columns := numbers.get(anonymous(slot.key))):
            found |= columns[names.index(index)]
    return max(found.difference(without), default=-1) + 1


def _parts_of_sizes(plan: Plan) -> set[str]:
    """Return the dims of which sizes are made and that no tensor shows alone, but for the heads, which are judged."""
    assert plan.family is not None
    symbols = {symbol for slot in plan.family.slots for symbol in slot.shape}
    return {name for symbol in symbols for name in symbols_of(symbol)} - {"heads", "kv_heads", "head_dim"}


def _extra_layers(numbers: Numbers, plan: Plan) -> set[int]:
    """Return the layers of the kind `EXTRA`, which the model does not count: they predict further tokens."""
    assert plan.family is not None
    slots = [slot for slot in plan.family.slots if slot.group == EXTRA and anonymous(slot.key) in numbers]
    found = [numbers[anonymous(slot.key)][index_names(slot.key).index("layer")] for slot in slots]
    return set().union(*found)


def _other_counts(numbers: Numbers, plan: Plan) -> dict[str, int]:
    """Return how many blocks other parts of the model have, such as an image encoder: one more than the highest."""
    assert plan.family is not None
    if plan.family.exact:
        return {}
    names = {name for slot in plan.family.slots for name in index_names(slot.key)} - {"layer", "expert"}
    return {name + "s": _count(numbers, plan, name) for name in names}


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
