"""What a family is when its output head is another, or none: classifiers, reward models, bare backbones.

A family's table has the head of a language model. `AutoModelForSequenceClassification` and its kin store `score.weight`
in its place, `AutoModel` stores no head and no prefix; both are whole, and neither can be written where a program wants
a language model. Sources: transformers 4.57 `modeling_layers.py` (GenericForSequenceClassification,
GenericForTokenClassification), `modeling_gpt2.py`, `modeling_gpt_neox.py`; torchtune 0.6.1
`rlhf/utils/_convert_weights.py`, `_component_builders.py` of Llama 2 and Mistral.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

from ckpt_gui.core.families.rule_schema import Rule
from ckpt_gui.core.families.schema import Family, Layout, Slot
from ckpt_gui.core.keys import anonymous
from ckpt_gui.core.ops import Shape
from ckpt_gui.dataclasses import dataclass, replace

# What the head is called: by most classes, by GPT-2's and GPT-NeoX's for tokens, by those that answer from a text.
_HEADS = ("score", "classifier", "qa_outputs")
_REWARD = "score"  # the one that torchtune knows, as its `output`
_REWARD_LAYOUT, _REWARD_STORED = "torchtune", "output.weight"
_OF_TASKS = ("ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering")
_ENDS = (*_OF_TASKS, "ForCausalLM", "ForConditionalGeneration", "LMHeadModel", "Model")  # of a class, after its stem
# Families of which torchtune 0.6.1 builds classifiers, and with what.
CLASSIFIERS = {"llama": "llama2_classifier", "mistral": "mistral_classifier"}
_LABELS = "labels"


@dataclass(frozen=True, slots=True)
class Variant:
    """A family with another head, or none.

    Attributes:
        family: The family's table, changed.
        layout: The layout of the checkpoint in it.
        why: What tells, in words.
    """

    family: Family
    layout: Layout
    why: str


def classifier(
    family: Family, layout: Layout, stored: Container[str], shapes: Mapping[str, Shape], config: Mapping[str, Any]
) -> Variant | None:
    """Return the family with a classifier's head, or None if the checkpoint has none.

    Args:
        family: By names, or by the config.
        layout: The checkpoint's.
        stored: Templates of its keys.
        shapes: The shape of one tensor of each template.
        config: Its config.json; empty without.
    """
    head = next((name for name in _HEADS if f"{name}.weight" in stored), "")
    if head and not holds_head(family, layout, stored) and layout.name.startswith("hf"):
        made = _with_classifier(family, head)
        return Variant(made, _same(made, layout), f"`{head}.weight` stands where a language model has its output head.")
    rows = shapes.get(_REWARD_STORED, ())[:1]
    told = architecture_of(config).endswith(_OF_TASKS)
    if layout.name == _REWARD_LAYOUT and rows and (told or rows == (1,)):
        made = _with_classifier(family, _REWARD)
        which = "the config names a classifier" if told else "it has a single row"
        return Variant(made, _same(made, layout), f"`{_REWARD_STORED}` is a classifier's: {which}.")
    return None


def backbone(family: Family, layout: Layout, prefix: str, *, tied: bool, why: str) -> Variant:
    """Return the family without output head.

    Args:
        family: By names, or by the config.
        layout: The checkpoint's.
        prefix: What its keys lack to be the family's.
        tied: True if the head is the embedding, so that nothing is lacking.
        why: What tells that none is wanted.
    """
    heads = frozenset() if tied else _head_keys(family)
    slots = tuple(s for s in family.slots if s.key not in heads)
    layouts = [_without(x, heads) for x in family.layouts if tied or x.name.startswith("hf")]
    if prefix:
        rules = tuple(replace(r, stored=str(r.stored).removeprefix(prefix)) for r in layouts[0].rules)
        layouts[0] = replace(layouts[0], rules=rules)
    made = replace(family, title=f"{family.title} backbone", slots=slots, layouts=tuple(layouts))
    return Variant(made, _same(made, layout), why)


def holds_head(family: Family, layout: Layout, stored: Container[str]) -> bool:
    """Return True if a checkpoint, of which the templates are given, stores a language model's head."""
    hub = family.role("head")
    rule = layout.by_hub.get(anonymous(hub)) if hub else None
    return rule is not None and anonymous(rule.name) in stored


def is_backbone(architecture: str, family: Family) -> bool:
    """Return True if a class of transformers is a family's model without a head.

    >>> from ckpt_gui.core.families.registry import BY_NAME
    >>> [is_backbone(name, BY_NAME["gpt2"]) for name in ("GPT2Model", "GPT2LMHeadModel", "")]
    [True, False, False]
    """
    return architecture.endswith("Model") and architecture != family.architecture and "LMHead" not in architecture


def architecture_of(config: Mapping[str, Any]) -> str:
    """Return the first class that a config.json names; empty if it names none."""
    names = config.get("architectures")
    return str(names[0]) if isinstance(names, list) and names else ""


def stem_of(architecture: str) -> str:
    """Return what the classes of a family share, by one of them.

    >>> [stem_of(name) for name in ("LlamaForCausalLM", "Qwen2MoeModel", "GPT2LMHeadModel", "Other")]
    ['Llama', 'Qwen2Moe', 'GPT2', 'Other']
    """
    return next((architecture.removesuffix(end) for end in _ENDS if architecture.endswith(end)), architecture)


def is_classifier(family: Family) -> bool:
    """Return True if a family was changed to one with a classifier's head."""
    return any(_LABELS in slot.shape for slot in family.slots)


def _with_classifier(family: Family, head: str) -> Family:
    heads = _head_keys(family)
    weight, bias = f"{head}.weight", f"{head}.bias"
    slots = (
        *(s for s in family.slots if s.key not in heads),
        Slot(weight, (_LABELS, "hidden")),
        Slot(bias, (_LABELS,), when="label_biases"),
    )
    layouts = []
    for layout in family.layouts:
        plain = _without(layout, heads)
        if layout.name.startswith("hf"):
            layouts.append(replace(plain, rules=(*plain.rules, Rule(weight, weight), Rule(bias, bias))))
        elif layout.name == _REWARD_LAYOUT and head == _REWARD:
            rules = (*plain.rules, Rule(_REWARD_STORED, weight))
            word = "REWARD" if family.name in CLASSIFIERS else ""
            layouts.append(replace(plain, rules=rules, program_type=word, always_ties=False))
    return replace(family, title=f"{family.title} classifier", slots=slots, layouts=tuple(layouts))


def _head_keys(family: Family) -> frozenset[str]:
    """Return the hub names of the head: its weight, and a bias where the family has one."""
    weight = family.role("head")
    return frozenset((weight, weight.removesuffix("weight") + "bias")) if weight else frozenset()


def _without(layout: Layout, hubs: frozenset[str]) -> Layout:
    return replace(layout, rules=tuple(r for r in layout.rules if hubs.isdisjoint(r.hubs)))


def _same(family: Family, layout: Layout) -> Layout:
    return next(x for x in family.layouts if x.name == layout.name)
