"""Say which family this is and how it is stored, with the evidence in words.

Names decide the layout. Families can have the same names (Llama and Mistral): there the config decides, or the user. A
config that names a family without a table is believed: its tensors are not taken for Llama's because their names agree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from ckpt_gui import dataclasses
from ckpt_gui.core.errors import Finding
from ckpt_gui.core.families import generic
from ckpt_gui.core.families.known import Known
from ckpt_gui.core.families.layouts import title_of
from ckpt_gui.core.families.numbering import numbered_by_keys
from ckpt_gui.core.families.registry import (
    BY_NAME,
    Match,
    best_matches,
    best_of_family,
    count_matches,
    for_model_type,
)
from ckpt_gui.core.families.tasks import architecture_of
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.model_config import ModelConfig
from ckpt_gui.core.ops import Shape
from ckpt_gui.core.passes.gguf import detect_gguf
from ckpt_gui.core.passes.load_config import load_config
from ckpt_gui.core.passes.recognise import recognise
from ckpt_gui.core.passes.recognise import sentence as told
from ckpt_gui.core.passes.task import with_task
from ckpt_gui.core.plan import Plan
from ckpt_gui.dataclasses import replace

MIN_SHARE = 0.5  # below this share of keys that fit, the layout counts as unknown


def detect(plan: Plan) -> Plan:
    """Set config, family, layout and prefix."""
    config, problems = load_config(plan)
    plan = plan.replace(config=config).found(*problems)
    if not plan.entries or plan.adapter is not None:
        return plan
    if plan.source.container == "gguf":
        return detect_gguf(plan)
    counts = Counter({name: group.distinct for name, group in plan.groups.items()})  # ranks hold each name
    shapes = {name: plan.entries[group.places[0]].output.shape for name, group in plan.groups.items()}
    if made := _by_transformers(plan, counts):
        return made
    matches = _with_named(plan, counts, shapes, best_matches(counts, shapes))
    if not matches or matches[0].matched < MIN_SHARE * matches[0].total:
        lost = _types(plan)[0] if lacks_table(plan) else None
        return plan.found(_no_table(lost, plan) if lost else _unknown(plan, matches))
    known = recognise(plan, matches)
    match, sentence, doubt = _choose(plan, matches, known)
    if match is None:
        return plan.found(doubt) if doubt else plan
    if plan.policy.stored is not None:
        other = _as_told(match, plan.policy.stored, counts)
        if other is None:
            return plan.found(_wrong_layout(plan.policy.stored, match))
        match = other
    text, fix = match.layout.caution
    named = plan.source.sidecars.stored if text and plan.policy.stored is None else None
    if named and (other := _as_told(match, named, counts)):
        match, text = other, ""
        plan = plan.explained(f"EXPORT_REPORT.json says that it was written as {safe_text(named, 40)}.")
    layout = numbered_by_keys(match.layout, (e.key for e in plan.entries))
    plan = plan.replace(family=match.family, layout=layout, prefix=match.prefix)
    plan = with_task(plan.explained(_layout_evidence(match), sentence, *_row_order(match)), counts, shapes)
    models = tuple(model for model in known if model.family == match.family.name)
    if models:
        plan = plan.replace(known=tuple(model.name for model in models)).explained(told(models))
    plan = plan.found(doubt) if doubt else plan
    plan = plan.found(Finding("layout-ambiguous", "info", text, fix=fix)) if text else plan
    return plan.found(_prefix_finding(match)) if plan.prefix else plan


def _as_told(match: Match, stored: str, counts: Counter[str]) -> Match | None:
    """Return the match in the layout that the user or an export's report names; None if its keys fit it less well."""
    layout = match.family.layout(stored)
    if layout is None or count_matches(counts, layout, match.prefix) < match.matched:
        return None
    return replace(match, layout=layout)


def _wrong_layout(stored: str, match: Match) -> Finding:
    text = f"The keys are not those of the layout {safe_text(stored, 40)}; they are those of {match.layout.name}."
    return Finding("unknown-layout", "error", text, fix="Leave --from out.", blocking=True)


def lacks_table(plan: Plan) -> bool:
    """Return True if the config names a family that has no table, and the user no other."""
    types = _types(plan) if plan.config and plan.config.is_hf else []
    return bool(types) and plan.policy.family is None and for_model_type(types[0]) is None


def _by_transformers(plan: Plan, counts: Counter[str]) -> Plan | None:
    """Take the family from what transformers writes for the config; None where tables have to tell."""
    saved = plan.evidence.saved
    if not lacks_table(plan) or saved is None or saved.problem:
        return None
    match = best_of_family(counts, generic.family_of(saved))
    by = f"transformers {saved.version} writes for {safe_text(saved.kind, 60)}"
    if match.matched < MIN_SHARE * match.total:
        if any(map(for_model_type, _types(plan))):
            return None  # the text model of a larger one, by itself
        text = f"{match.matched} of {match.total} keys are names that {by}, which the config asks for."
        fix = "Look whether the config belongs to these weights; name another with --config."
        return plan.found(Finding("unknown-layout", "error", text, fix=fix))
    layout = generic.with_ignorable(match.layout, saved, counts)
    family = dataclasses.replace(match.family, layouts=(layout,))
    plan = plan.replace(family=family, layout=layout, prefix=match.prefix)
    plan = plan.explained(f"{match.matched} of {match.total} keys are names that {by}.")
    return plan.found(_prefix_finding(match)) if match.prefix else plan


def _with_named(
    plan: Plan, counts: Counter[str], shapes: Mapping[str, Shape], matches: tuple[Match, ...]
) -> tuple[Match, ...]:
    """Add the family that the config names: one with more or fewer tensors than it should have fits others better."""
    families = [f for f in map(for_model_type, _types(plan)) if f and all(m.family is not f for m in matches)]
    own = [best_of_family(counts, family, shapes) for family in families]
    return (*matches, *(m for m in own if m.matched >= MIN_SHARE * m.total))


def _types(plan: Plan) -> list[str]:
    """Return the model types that the config names: that of the whole, then that of its text model."""
    found = (plan.config.whole_type, plan.config.model_type) if plan.config else ()
    return list(dict.fromkeys(t for t in found if t))


def _choose(
    plan: Plan, matches: tuple[Match, ...], known: tuple[Known, ...]
) -> tuple[Match | None, str, Finding | None]:
    """Return the match to take, why, and a doubt to tell the user."""
    wanted = plan.policy.family
    if wanted is not None:
        match = next((m for m in matches if m.family.name == wanted), None)
        return match, f"The family {wanted} was chosen.", None if match else _wrong_family(wanted, matches)
    types = _types(plan)
    named = [(m, t) for t in types for m in matches if m.family is for_model_type(t)]
    if named:  # of a whole with images and its text model, that of which least is lacking
        match, model_type = min(named, key=lambda pair: pair[0].lacking)
        return match, _named_by(plan.config, model_type), None
    if types:
        return None, "", _no_table(types[0], plan)
    if plan.config and (own := _by_params(plan.config, matches)):
        return own, f"params.json has the fields of {own.family.title}'s own files.", None
    fitting = tuple(m for m in matches if m.lacking == matches[0].lacking)
    if len({m.family.name for m in fitting}) == 1:
        return fitting[0], f"Only {fitting[0].family.title} has exactly these tensors.", None
    sized = {model.family for model in known}
    if len(sized) == 1 and (match := next((m for m in fitting if m.family.name in sized), None)):
        return match, f"Of the families that the names fit, only {match.family.title} has a model of these sizes.", None
    return fitting[0], f"Nothing names the family; {fitting[0].family.title} is assumed.", _ambiguous(fitting)


def _named_by(config: ModelConfig | None, model_type: str) -> str:
    """Return where a config names the family, in words."""
    assert config is not None
    if config.class_tells:
        return f"{config.origin} has no model_type; its class {safe_text(architecture_of(config.raw), 60)} tells."
    return f"{config.origin} says model_type {safe_text(model_type, 40)}."


def _by_params(config: ModelConfig, matches: tuple[Match, ...]) -> Match | None:
    """Return the match that fields of params.json tell: Meta's formula, or the width that Mistral states instead."""
    names = {"sliding_window": "mistral", "multiple_of": "llama", "hidden_dim": "mistral"}
    wanted = next((family for field, family in names.items() if field in config.raw), None)
    return next((m for m in matches if m.family.name == wanted), None)


def _layout_evidence(match: Match) -> str:
    example = next(r.name for r in match.layout.rules if "{layer}" in r.name)
    title = title_of(match.layout.name)
    return f"{match.matched} of {match.total} keys are {title} names, such as {example.replace('{layer}', 'N')}."


def _row_order(match: Match) -> tuple[str, ...]:
    """Say in which rotary order the rows of q and k are taken to lie: an assumption that nothing in the file proves."""
    orders = dict(match.family.row_order)
    order = {"pairs": "neighbouring pairs", "halves": "halves"}.get(orders.get(match.layout.name, ""))
    if order is None or len(set(orders.values())) == 1:
        return ()
    title = title_of(match.layout.name)
    return (f"The rotary rows of q and k are taken to lie as {order}, as {title} has them; --against can prove it.",)


def _ambiguous(matches: tuple[Match, ...]) -> Finding | None:
    names = list(dict.fromkeys(m.family.title for m in matches))
    if len(names) < 2:
        return None
    return Finding(
        "family-ambiguous",
        "info",
        f"The names fit {', '.join(names[:-1])} and {names[-1]} alike; taken as {names[0]}. Only their configs differ.",
        fix="Give a config.json with --config, or name the family with --family.",
    )


def _unknown(plan: Plan, matches: tuple[Match, ...]) -> Finding:
    best = matches[0].matched if matches else 0
    samples = ", ".join(f"`{safe_text(e.key, 60)}`" for e in plan.entries[:3])
    return Finding(
        "unknown-layout",
        "error",
        f"{best} of {len(plan.entries)} keys match a known layout; it starts with {samples}.",
        fix="Inspect it as it is, or write it without wrappers with --to same.",
    )


def _no_table(model_type: str, plan: Plan) -> Finding:
    family = for_model_type(model_type)
    if family is not None:
        text = f"{_named_by(plan.config, model_type)} Most keys are none of a {family.title}."
        fix = "Look whether the config belongs to these weights; name another with --config."
        return Finding("unknown-layout", "error", text, fix=fix)
    known = ", ".join(BY_NAME)
    text = f"The config says model_type {safe_text(model_type, 40)}, a family without a table (known: {known})"
    problem = plan.evidence.saved.problem if plan.evidence.saved else ""
    text += f", and {problem}." if problem else "."
    fix = "Inspect it as it is, or write it without wrappers with --to same."
    if not generic.available():
        fix = f"With transformers ({generic.INSTALL}) its layout is known, too. {fix}"
    return Finding("unknown-layout", "error", text, fix=fix)


def _wrong_family(wanted: str, matches: tuple[Match, ...]) -> Finding:
    fitting = ", ".join(dict.fromkeys(m.family.name for m in matches))
    return Finding(
        "unknown-layout", "error", f"The keys do not fit the family {safe_text(wanted, 40)}; they fit {fitting}.",
        fix=f"Choose --family {fitting}.", blocking=True,
    )  # fmt: skip


def _prefix_finding(match: Match) -> Finding:
    return Finding(
        "renamed",
        "warning",
        f"The keys lack the leading `{match.prefix}` that {title_of('hf')} names have: a bare backbone was saved.",
        fix=f"fix puts `{match.prefix}` before them; no value changes.",
    )
