"""Recognise a published model by its sizes, where no config tells what it is.

Names and shapes of a file without a config fit a handful of published models, mostly one. What such a model's makers
said then stands in for the config: which family it is, and how many heads its q and k rows are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from ckpt_gui.core.families.known import Known, find_known, fitting
from ckpt_gui.core.families.known_config import is_whole, known_config
from ckpt_gui.core.families.registry import Match
from ckpt_gui.core.keys import anonymous
from ckpt_gui.core.model_config import ModelConfig
from ckpt_gui.core.plan import Plan

PREFIX = "the known size "


def recognise(plan: Plan, matches: Sequence[Match]) -> tuple[Known, ...]:
    """Return the published models whose sizes the tensors have, families that the names fit only."""
    if plan.config is not None or len([name for name in plan.source.ranks if name]) > 1:
        return ()
    groups = _groups(plan) if matches else {}
    found = {model.name: model for match in matches for model in _of_match(groups, match)}
    return tuple(found.values())


def _groups(plan: Plan) -> dict[str, tuple[Counter[tuple[int, ...]], int]]:
    """Return for each template the shapes that it has, how often, and the largest of its first numbers.

    A model of 500,000 tensors has some dozens of templates: what is known of them is asked once for each.
    """
    return {
        name: (
            Counter(plan.entries[at].output.shape for at in group.places),
            max(group.columns[0]) if group.flat else -1,
        )
        for name, group in plan.groups.items()
    }


def _of_match(groups: Mapping[str, tuple[Counter[tuple[int, ...]], int]], match: Match) -> tuple[Known, ...]:
    votes: dict[str, Counter[int]] = {}
    layers = 0
    slots, rules = match.family.by_slot, match.layout.by_stored
    for name, (shapes, last) in groups.items():
        rule = rules.get(name) or rules.get(match.prefix + name)
        if rule is None or not isinstance(rule.hub, str) or rule.stack or rule.reshapes or rule.split:
            continue
        slot = slots[anonymous(rule.hub)]
        if "{layer}" in rule.stored:
            layers = max(layers, last + 1)
        for shape, count in shapes.items():
            if len(slot.shape) == len(shape):
                for symbol, size in zip(slot.shape, shape, strict=True):
                    votes.setdefault(symbol, Counter())[size] += count
    sizes = {symbol: counter.most_common(1)[0][0] for symbol, counter in votes.items()}
    return fitting([match.family.name], sizes, layers)


def sentence(models: Sequence[Known]) -> str:
    """Say which published models have these sizes."""
    names = [model.name for model in models]
    if len(names) == 1:
        return f"Its sizes are those of {names[0]}, and of no other known model."
    return f"Its sizes are those of {', '.join(names[:-1])} and {names[-1]} alike."


def known_sizes(plan: Plan) -> tuple[dict[str, int], str]:
    """Return the sizes of the published models that fit, if they agree, and where they come from in words."""
    models = [find_known(name) for name in plan.known]
    if not models or any(other.dims != models[0].dims for other in models):
        return {}, ""
    return dict(models[0].dims), PREFIX + " or ".join(model.name for model in models)


def config_of_known(plan: Plan) -> tuple[ModelConfig, bool] | None:
    """Return the config of the published model that has these sizes, and whether it can be no other's.

    Where several have them, it is that of the first; None where the file has a config of its own, or what is known of
    the model does not make one.
    """
    if plan.config is not None or plan.family is None or not plan.known:
        return None
    models = [find_known(name) for name in plan.known]
    if not is_whole(models[0]) or models[0].family != plan.family.name:
        return None
    first, *others = (known_config(model, plan.family) for model in models)
    return first, all(other.raw == first.raw for other in others)


def told_config(plan: Plan) -> str:
    """Say what a config that is taken from a published model rests on; empty where none is."""
    found = config_of_known(plan)
    if found is None:
        return ""
    config, certain = found
    text = f"taken from {config.origin}, whose sizes the tensors have: rotary base {config.rope_theta:,.0f}"
    text += f", scaled by {config.rope_scaling['factor']:g}" if config.rope_scaling else ""
    if certain:
        return text
    have = "has" if len(plan.known) == 2 else "have"
    return f"{text}; {' and '.join(plan.known[1:])} {have} the same sizes, not the same config"
