"""The report of `fix` in words: steps, old and new names, what is left out, files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ckpt_gui.core.entry import Entry
from ckpt_gui.core.errors import Finding, worst_first
from ckpt_gui.core.families.layouts import title_of
from ckpt_gui.core.keys import template
from ckpt_gui.core.plan import Dropped, Step
from ckpt_gui.core.text import Document, Pair, Section, Style, Text, human_bytes, plural

if TYPE_CHECKING:
    from ckpt_gui.core.export import Export


def export_document(export: Export, verdict: str, style: Style = "", files: Iterable[str] = ()) -> Document:
    """Return the report of `fix`: steps, findings, old and new names, what is left out, files.

    Args:
        export: What will be, or was, written.
        verdict: How it ended.
        style: How the verdict looks.
        files: Files that the writer names, those with weights at least.
    """
    names = dict.fromkeys((*files, *export.texts, *export.carried))
    steps, *rest = plan_sections(export)
    sections = [
        Section("", (Text(_export_opening(export)),)),
        steps,
        Section("Findings", worst_first(export.findings)),
        *rest,
        Section("Files", tuple(Text(f"`{name}`", bullet=True) for name in names)),
    ]
    return Document(export.plan.source.path, tuple(s for s in sections if s.items), verdict, style)


def plan_sections(export: Export, before: str = "") -> tuple[Section, ...]:
    """Return the plan: what is done, old name → new name by kind, and what is left out.

    Args:
        export: What will be, or was, written.
        before: What stands before the headings.
    """
    return (
        Section(f"{before}Steps", step_texts(export.steps)),
        Section(f"{before}Tensors", mapping(export)),
        Section(f"{before}Left out", left_out(export)),
    )


def _export_opening(export: Export) -> str:
    target, plan = export.target, export.plan
    layout = title_of(target.layout)
    name = "the same layout" if target.layout == "same" else f"the {layout} layout"
    count = plural(len(export.entries), "tensor")
    family = f"{plan.family.title} in {name}" if plan.family else f"In {name}"
    return f"{family}, as {export.container}: {count}, {human_bytes(export.nbytes)}."


def step_texts(steps: tuple[Step, ...]) -> tuple[Text, ...]:
    """Return the rows of the fix plan in words."""
    if not steps:
        return (Text("Names, order and types of the tensors stay as they are.", bullet=True),)
    return tuple(Text(_step(step), bullet=True) for step in steps)


def _step(step: Step) -> str:
    unit = {"config": "file", "foreign": "value"}.get(step.id, "tensor")
    values = "values change" if step.changes_values else ""
    guessed = "" if step.certain else "not certain"
    marks = ", ".join(m for m in (plural(step.count, unit), values, guessed) if m)
    return f"{step.title} ({marks})" + (f": {step.evidence.rstrip('.')}." if step.evidence else ".")


def mapping(export: Export) -> tuple[Pair, ...]:
    """Return old name → new name, tensors of one kind together, in writing order."""
    groups: dict[tuple[str, str, str], list[Entry]] = {}
    for entry in export.entries:
        note = "; ".join(_ops(entry, export))
        groups.setdefault((template(entry.ref.key), template(entry.key), note), []).append(entry)
    return tuple(_pair(group, note) for (_, _, note), group in groups.items())


def _ops(entry: Entry, export: Export) -> list[str]:
    return [op.describe(export.plan.dims) for op in entry.ops]


def _pair(group: list[Entry], note: str) -> Pair:
    first = group[0]
    if len(group) == 1:
        return Pair(first.ref.key, first.key if first.key != first.ref.key else "", note)
    before, after = (template(key).replace("{}", "N") for key in (first.ref.key, first.key))
    if first.key == first.ref.key:
        return Pair(before, "", note, len(group))
    return Pair(before, after, note, len(group), (first.ref.key, first.key))


def left_out(export: Export) -> tuple[Pair | Text, ...]:
    """Return what will not be written and why, tensors of one kind together."""
    groups: dict[tuple[str, str], list[Dropped]] = {}
    for dropped in export.dropped:
        kind = dropped.kind if dropped.kind == "not-weights" else template(dropped.ref.full_key)
        groups.setdefault((kind, dropped.reason), []).append(dropped)
    pairs = [_gone(group) for group in groups.values()]
    return (*pairs, *(Text(name, bullet=True) for name in export.left_out))


def _gone(group: list[Dropped]) -> Pair:
    first = group[0]
    names = {template(d.ref.full_key).replace("{}", "N") for d in group}
    name = first.ref.full_key if len(group) == 1 else names.pop() if len(names) == 1 else f"{first.ref.full_key} …"
    return Pair(name, "", first.reason, len(group))


def missing_for_use(export: Export) -> tuple[Finding, ...]:
    """Return what an export lacks before text can go in and out of it."""
    return tuple(f for f in export.findings if f.code in ("config-missing", "tokenizer-missing"))


def written_sentence(folder: str, verified: int, tensors: int, nbytes: int, seconds: float) -> str:
    """Say that an export was written and read back."""
    size = human_bytes(nbytes)
    return f"Written and verified: {verified:,}/{tensors:,} tensors, {size}, in `{folder}` ({seconds:.1f} s)."


def use_sentences(use_with: Mapping[str, str]) -> tuple[str, ...]:
    """Say how an export is used, from the writer's `use_with`."""
    model_type = use_with.get("torchtune_model_type")
    first = (f"In torchtune, load it with model_type {model_type}.",) if model_type else ()
    return (*first, *(text for name, text in use_with.items() if name != "torchtune_model_type"))
