"""What the checkpoint card says, as plain values: the widgets only lay it out."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterator

from ckpt_gui.core.against import Against
from ckpt_gui.core.bulk import tally
from ckpt_gui.core.errors import Finding, worst_first
from ckpt_gui.core.export import Export
from ckpt_gui.core.families.layouts import title_of
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.passes.section import candidates
from ckpt_gui.core.passes.unwrap import ANYWHERE, LEADING
from ckpt_gui.core.plan import Plan
from ckpt_gui.core.tensors import TensorRef, count_places
from ckpt_gui.core.text import human_bytes, plural
from ckpt_gui.dataclasses import dataclass
from ckpt_gui.gui.layouts import LAYOUTS
from ckpt_gui.gui.models.adapter_rows import AdapterRow, adapter_rows
from ckpt_gui.gui.wording import human_count

CONTAINERS = {
    "safetensors": "safetensors", "torch-zip": "PyTorch file", "torch-legacy": "old PyTorch file",
    "torch-tar": "very old PyTorch file", "torchscript": "TorchScript archive", "npz": "NumPy archive", "gguf": "GGUF",
    "dcp": "distributed checkpoint", "dcp-safetensors": "parts of ranks, safetensors", "fsdp-ranks": "a file a rank",
    "deepspeed": "DeepSpeed ZeRO", "memory": "in memory",
}  # fmt: skip
PICKLE_CODES = ("unsafe-pickle", "foreign-object")


@dataclass(frozen=True, slots=True)
class Fact:
    """A line of the card.

    Attributes:
        label: What it is about.
        value: The fact.
        evidence: Where it comes from, for the tool tip.
    """

    label: str
    value: str
    evidence: str = ""


@dataclass(frozen=True, slots=True)
class CheckpointCard:
    """The card.

    Attributes:
        title: What it is, in a few words.
        nesting: What is around the weights, outermost first.
        evidence: Why we think so, a sentence each.
        facts: The lines.
        safe: True if no foreign object was met.
        safety: A sentence on what loading it elsewhere could execute.
        findings: What the user should know, worst first.
        passed: What was checked and is as it should be.
        sections: Sections to choose from, if the user has to.
        adapter: The modules of an adapter; empty for a model.
    """

    title: str
    nesting: tuple[str, ...]
    evidence: tuple[str, ...]
    facts: tuple[Fact, ...]
    safe: bool
    safety: str
    findings: tuple[Finding, ...]
    passed: tuple[str, ...]
    sections: tuple[tuple[str, ...], ...] = ()
    adapter: tuple[AdapterRow, ...] = ()


def checkpoint_card(export: Export, beside: Against | None = None) -> CheckpointCard:
    """Return the card of an export's checkpoint. Looks at every tensor, so it is made with the snapshot, in a job."""
    plan = export.plan
    findings = _findings(export, beside.findings if beside else ())
    safe, safety = _safety(plan)
    several = plan.policy.section is not None or any(f.code == "several-sections" for f in plan.findings)
    sections = tuple(c.section for c in candidates(plan.source.refs)) if several else ()
    facts = (*_facts(plan), *_merged(export), *_beside(beside))
    return CheckpointCard(
        _title(plan), _nesting(plan), plan.evidence_text, facts, safe, safety, findings,
        tuple(_passed(export)), sections, adapter_rows(plan.adapter) if plan.adapter is not None else (),
    )  # fmt: skip


# What to do, by the means of the window; the core names the options of the command line.
_FIXES = {
    "config-missing": "Choose a config here, or in the export dialog a folder that has one.",
    "tokenizer-missing": "Choose in the export dialog a folder that has one.",
    "heads-unknown": "Choose a config here, or give the counts in the export dialog.",
    "key-collision": "Compare the two, then leave one out: select it in the tree and press Delete.",
    "several-sections": "Choose in the card above which of them holds the weights.",
    "unknown-layout": "Inspect it as it is, or export it as it is, without wrappers.",
    "family-ambiguous": "Choose a config here to settle it.",
    "dtype-mixed": "It may be meant so (norms in fp32); the export dialog can cast all.",
}


def fix_words(finding: Finding) -> str:
    """Return what the window can do about a finding, or what the user can; empty where there is nothing to do."""
    if finding.code == "adapter-empty" and "--lora-alpha" in (finding.fix or ""):
        return "Give alpha in the export dialog, as it was in training."
    return _FIXES.get(finding.code, finding.fix or "")


def _title(plan: Plan) -> str:
    if plan.adapter is not None and plan.layout is not None:
        return title_of(plan.layout.name) + (f" for {plan.family.title}" if plan.family else "")
    if plan.family is None or plan.layout is None:
        return "Unknown layout"
    return f"{plan.family.title}, {LAYOUTS.get(plan.layout.name, plan.layout.name)} layout"


def _nesting(plan: Plan) -> tuple[str, ...]:
    section = [f"inside {{'{safe_text(name, 40)}': …}}" for name in plan.section]
    makers = ANYWHERE | {"module": "DDP", "model": "a trainer"}
    assert LEADING.keys() <= makers.keys()
    return (*section, *(f"inside {makers.get(w, safe_text(w, 40))}" for w in plan.wrappers))


def _findings(export: Export, more: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Return the export's findings, those of the file that an export mends, and those of a comparison."""
    mended = [f for f in export.plan.findings if not f.blocking and f not in export.findings]
    return worst_first((*export.findings, *mended, *more))


def _merged(export: Export) -> Iterator[Fact]:
    step = next((step for step in export.steps if step.id == "merge"), None)
    if step is not None:
        yield Fact("Adapter", step.evidence, "Modules of the adapter that are in this model, and their scales")


def _beside(beside: Against | None) -> Iterator[Fact]:
    if beside is not None:
        name = beside.name if beside.kind == "known" else os.path.basename(os.path.normpath(beside.name))
        same = sum(row.is_same for row in beside.rows)
        words = f"{safe_text(name, 60)}: {same:,} of {plural(len(beside.rows), 'tensor')} alike"
        yield Fact("Compared with", words, "\n".join([safe_text(beside.name, 300), *beside.sentences()]))


def _facts(plan: Plan) -> Iterator[Fact]:
    refs = [ref for entry in plan.weights for ref in entry.inputs]
    yield _parameters(plan, refs)
    if plan.dims.get("layers"):
        yield _sizes(plan)
    yield Fact("Types", _types(refs), "share of the parameters")
    yield _pair(plan)
    yield _files(plan)
    yield Fact("Beside it", _sidecars(plan), plan.source.sidecars.folder or "")


def _parameters(plan: Plan, refs: list[TensorRef]) -> Fact:
    stored = _numbers(plan, refs)
    head = plan.tie.head
    twice = head.numel if head is not None and plan.tie.state == "equal" else 0
    exact = f"{stored:,} stored; {stored - twice:,} distinct, a tied pair counted once"
    text = human_count(stored)
    return Fact("Parameters", f"{text} stored, {human_count(stored - twice)} distinct" if twice else text, exact)


def _numbers(plan: Plan, refs: list[TensorRef]) -> int:
    """Return how many numbers tensors hold, those at one place counted once."""
    if plan.source.blocks:
        return sum({r.place: plan.source.numel(r) for r in refs}.values())
    return sum(math.prod(shape) * count for (_, shape), count in count_places(refs).items())


def _sizes(plan: Plan) -> Fact:
    dims, origin = plan.dims, plan.dims_from
    parts = [plural(dims["layers"], "layer"), f"hidden {dims['hidden']:,}" if "hidden" in dims else ""]
    if "heads" in dims:
        shared = dims.get("kv_heads", dims["heads"]) != dims["heads"]
        parts.append(plural(dims["heads"], "head") + (f" ({dims['kv_heads']} key/value)" if shared else ""))
    evidence = "\n".join(f"{name} {size:,}: from {origin.get(name, 'shapes')}" for name, size in dims.items())
    return Fact("Model", ", ".join(p for p in parts if p), evidence)


def _types(refs: list[TensorRef]) -> str:
    counts: Counter[str] = Counter()
    for (dtype, shape), count in tally((ref.dtype, ref.shape) for ref in refs).items():  # few, of however many
        counts[dtype] += math.prod(shape) * count
    total = max(1, counts.total())
    return ", ".join(f"{name} {_percent(n, total)}" for name, n in counts.most_common()) or "no tensors"


def _percent(part: int, total: int) -> str:
    share = 100 * part / total
    return "under 0.1 %" if 0 < share < 0.1 else f"{share:.3g} %"


def _pair(plan: Plan) -> Fact:
    tie = plan.tie
    words = {
        "same-storage": "tied: one storage", "equal": "equal byte for byte", "different": "different values",
        "unchecked": "not compared", "absent": "no pair",
    }  # fmt: skip
    text = words[tie.state]
    if tie.state == "absent" and (tie.head is None) != (tie.embedding is None):
        text = "no head stored" + (", tied" if tie.tied else "") if tie.head is None else "no embedding stored"
    keys = [safe_text(ref.key) for ref in (tie.embedding, tie.head) if ref is not None]
    flag = f"the flag says {'tied' if tie.flag else 'untied'} ({tie.flag_from})" if tie.flag is not None else ""
    return Fact("Embed / head", text, "\n".join([*keys, *([flag] if flag else [])]))


def _files(plan: Plan) -> Fact:
    files = plan.source.files
    kind = CONTAINERS.get(plan.source.container, plan.source.container)
    size = f", {human_bytes(sum(f.size for f in files))}" if files else ""
    count = plural(len(files), "file")
    names = "\n".join(safe_text(f.name, 100) for f in files[:12]) + ("\n…" if len(files) > 12 else "")
    return Fact("Stored as", f"{kind}, {count}{size}" if files else kind, names)


def _sidecars(plan: Plan) -> str:
    beside = plan.source.sidecars
    found = [
        name for name, there in (("config.json", beside.config), ("params.json", beside.params)) if there is not None
    ]
    found += ["tokenizer"] if beside.tokenizer else []
    lacking = [] if plan.config else ["no config"]
    lacking += [] if beside.tokenizer else ["no tokenizer"]
    return ", ".join([*found, *lacking])


def _safety(plan: Plan) -> tuple[bool, str]:
    if any(f.code == "unsafe-pickle" for f in plan.source.problems):
        return False, "Other loaders would run code from this file. Here nothing in it is executed."
    if any(f.code == "foreign-object" for f in plan.source.problems):
        return True, "Holds objects of other classes. They are named, never made; nothing in it is executed."
    return True, "Safe: nothing in it is executed."


def _passed(export: Export) -> Iterator[str]:
    plan = export.plan
    codes = {f.code for f in (*plan.findings, *export.findings)}
    if not plan.source.problems:
        yield f"{'Every file' if len(plan.source.files) > 1 else 'The file'} opens whole"
    if plan.family is None or not codes.isdisjoint({"unknown-layout", "not-a-checkpoint"}):
        return
    if "missing-tensor" not in codes:
        yield f"All {len(plan.entries)} expected tensors are there"
    if "shape-mismatch" not in codes:
        yield "Every shape is the expected one"
    if "unexpected-tensor" not in codes:
        yield "No tensor is left over"
    if "key-collision" not in codes:
        yield "Names stay distinct without wrappers"
    if "dtype-mixed" not in codes and plan.entries:
        yield f"One type throughout: {plan.entries[0].output.dtype}"
    if plan.config is not None and "config-mismatch" not in codes:
        yield f"{plan.config.origin} agrees with the tensors"
    if plan.tie.state in ("same-storage", "equal") and "tied-conflict" not in codes:
        yield "Embedding and output head are equal"
