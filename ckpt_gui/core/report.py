"""What is said of a checkpoint or an export: as JSON of schema 1, as SARIF, and as a document for `text` to write.

Pure: plan or export in, values out. The command line and the window show the same words.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

from ckpt_gui.core.adapters import Adapter
from ckpt_gui.core.errors import CheckpointError, Finding, Severity, worst_first
from ckpt_gui.core.families.layouts import title_of
from ckpt_gui.core.keys import safe_text, template
from ckpt_gui.core.passes.adapter import scales
from ckpt_gui.core.passes.section import shown as shown_section
from ckpt_gui.core.plan import Dropped, Entry, Plan, Status, Step, Tie
from ckpt_gui.core.tensors import TensorRef, unique_bytes
from ckpt_gui.core.text import Document, Pair, Section, Style, Text, human_bytes, plural

if TYPE_CHECKING:
    from ckpt_gui.core.against import Against
    from ckpt_gui.core.retarget import Export

SCHEMA = 1
NO_REFERENCE = (
    "Whether the rows of q and k lie in the order that their names say, and whether norms or gate and up have changed "
    "places, can not be seen in one file: --against compares it with another checkpoint."
)
MOST_KEYS = 20
CONTAINERS = {
    "safetensors": "safetensors",
    "torch-zip": "torch (zip)",
    "torch-legacy": "torch (before 1.6)",
    "torch-tar": "torch (tar, of 2016)",
    "torchscript": "TorchScript",
    "npz": "NumPy",
    "gguf": "GGUF",
    "dcp": "distributed torch",
    "fsdp-ranks": "FSDP rank",
    "deepspeed": "DeepSpeed ZeRO",
    "memory": "state dict in memory",
}
_DIMS = {
    "layers": "{} layers", "hidden": "hidden {}", "ffn": "feed-forward {}", "heads": "{} heads",
    "kv_heads": "{} key/value heads", "vocab": "vocabulary {}",
}  # fmt: skip
_LEVELS = {"error": "error", "warning": "warning", "info": "note"}
Outcome = Literal["written", "refused", "failed", "possible"]


@dataclass(frozen=True, slots=True)
class Facts:
    """The model in numbers; tensors at the same place count once, except in `tensors` and `dtypes`.

    Attributes:
        tensors: Weights of the model.
        parameters: Their elements.
        nbytes: Their bytes.
        dtypes: Weights by element type.
    """

    tensors: int
    parameters: int
    nbytes: int
    dtypes: Mapping[str, int]


def facts(plan: Plan) -> Facts:
    """Count the model's weights."""
    refs = [ref for entry in plan.weights for ref in entry.inputs]
    stored = {ref.path: ref for ref in refs}  # the slices of all ranks are one tensor
    parameters = sum({ref.place: ref.numel for ref in refs}.values())
    dtypes = dict(Counter(ref.dtype for ref in stored.values()).most_common())
    return Facts(len(stored), parameters, unique_bytes(refs), dtypes)


def status(plan: Plan) -> Status:
    """Return the plan's status; `unreadable` where no tensor can be listed."""
    return plan.status if plan.source.refs else "unreadable"


# --------------------------------------------------------------------------------------------------------------- JSON


def check_json(plan: Plan, beside: Against | None = None) -> dict[str, Any]:
    """Return what `check --json` prints (schema 1), with what was compared if there is a reference."""
    numbers, adapter = facts(plan), plan.adapter or plan.merged
    found: dict[str, Any] = {
        "schema": SCHEMA,
        "path": plan.source.path,
        "status": status(plan),
        "container": plan.source.container,
        "layout": plan.layout.name if plan.layout else None,
        "family": plan.family.name if plan.family else None,
        "dims": dict(plan.dims),
        "section": list(plan.section),
        "wrappers": list(plan.wrappers),
        "files": [file.name for file in plan.source.files],
        "tensors": numbers.tensors,
        "parameters": numbers.parameters,
        "bytes": numbers.nbytes,
        "dtypes": dict(numbers.dtypes),
        "tied": _tie_json(plan.tie),
        "findings": [finding_json(f) for f in worst_first(plan.findings)],
    }
    found |= {"adapter": adapter_json(adapter)} if adapter else {}
    return found | ({"against": _against_json(beside)} if beside else {})


def adapter_json(adapter: Adapter) -> dict[str, Any]:
    """Return what is known of an adapter: rank, alpha and scale of every module."""
    return {
        "style": adapter.style,
        "merged_into": "the weights beside it" if adapter.inside else None,
        "rslora": adapter.config.get("use_rslora") is True,
        "targets": list(dict.fromkeys(lora.module.rpartition(".")[2] for lora in adapter.loras)),
        "whole": [] if adapter.inside else list(adapter.whole),
        "modules": [
            {
                "module": x.module, "rank": x.rank, "alpha": x.alpha, "scale": x.scale, "dora": x.lengths is not None,
            }
            for x in adapter.loras
        ],
    }  # fmt: skip


def _against_json(beside: Against) -> dict[str, Any]:
    rows = [row for row in beside.rows if row.state not in ("equal", "fits")]
    return {
        "name": beside.name,
        "kind": beside.kind,
        "counts": dict(beside.counts),
        "rows": [
            {
                "key": row.key, "state": row.state, "ours": row.ours, "theirs": row.theirs,
                "shape": None if row.shape is None else list(row.shape),
                "wanted": None if row.wanted is None else list(row.wanted), "dtype": row.dtype,
                "wanted_dtype": row.wanted_dtype, "note": row.note,
            }
            for row in rows
        ],
    }  # fmt: skip


def _tie_json(tie: Tie) -> dict[str, Any]:
    return {
        "flag": tie.flag,
        "embedding": tie.embedding.key if tie.embedding else None,
        "head": tie.head.key if tie.head else None,
        "state": tie.state,
    }


def finding_json(finding: Finding) -> dict[str, Any]:
    """Return a finding as schema 1 has it: the first 20 keys, and how many there are."""
    return {
        "code": finding.code,
        "severity": finding.severity,
        "message": finding.message,
        "keys": list(finding.keys[:MOST_KEYS]),
        "count": len(finding.keys),
        "fix": finding.fix,
    }


def failure_json(path: str, error: CheckpointError) -> dict[str, Any]:
    """Return what `check --json` prints of a path in which no tensor can be listed."""
    return {
        "schema": SCHEMA, "path": path, "status": "unreadable", "container": None, "layout": None, "family": None,
        "dims": {}, "section": [], "wrappers": [], "files": [], "tensors": 0, "parameters": 0, "bytes": 0,
        "dtypes": {}, "tied": _tie_json(Tie()), "findings": [finding_json(error.as_finding())],
    }  # fmt: skip


def export_json(export: Export, outcome: Outcome, result: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return what `fix --report FILE.json` writes: the plan of an export and how it ended."""
    target = export.target
    return {
        "schema": SCHEMA,
        "path": export.plan.source.path,
        "outcome": outcome,
        "target": {"layout": target.layout, "container": export.container, "dtype": target.dtype},
        "bytes": export.nbytes,
        "steps": [_step_json(step) for step in export.steps],
        "tensors": [_entry_json(entry, export) for entry in export.entries],
        "dropped": [{"key": d.ref.full_key, "kind": d.kind, "reason": d.reason} for d in export.dropped],
        "beside": [d.ref.full_key for d in export.beside],
        "left_out": list(export.left_out),
        "files": [*export.texts, *export.carried],
        "findings": [finding_json(f) for f in worst_first(export.findings)],
        "result": dict(result) if result else None,
    }


def _entry_json(entry: Entry, export: Export) -> dict[str, Any]:
    return {"from": [ref.full_key for ref in entry.inputs], "to": entry.key, "ops": _ops(entry, export)}


def _step_json(step: Step) -> dict[str, Any]:
    return {
        "id": step.id, "title": step.title, "count": step.count, "evidence": step.evidence,
        "changes_values": step.changes_values, "certain": step.certain,
    }  # fmt: skip


def sarif(path: str, findings: Iterable[Finding]) -> dict[str, Any]:
    """Return findings as a SARIF 2.1.0 log, which code hosts show beside a change."""
    listed = worst_first(tuple(findings))
    codes = list(dict.fromkeys(f.code for f in listed))
    driver = {
        "name": "ckpt_gui",
        "version": _version(),
        "rules": [{"id": code, "name": code.title().replace("-", "")} for code in codes],
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_sarif_result(path, f, codes.index(f.code)) for f in listed],
    }
    return {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run]}


def _sarif_result(path: str, finding: Finding, rule: int) -> dict[str, Any]:
    text = f"{finding.message} {finding.fix}" if finding.fix else finding.message
    location: dict[str, Any] = {"physicalLocation": {"artifactLocation": {"uri": _uri(path)}}}
    if finding.keys:
        names = [{"fullyQualifiedName": key, "kind": "member"} for key in finding.keys[:MOST_KEYS]]
        location["logicalLocations"] = names
    return {
        "ruleId": finding.code,
        "ruleIndex": rule,
        "level": _LEVELS[finding.severity],
        "message": {"text": text},
        "locations": [location],
    }


def _uri(path: str) -> str:
    """Return a path as a reference that SARIF readers take: relative, or `file:` and absolute."""
    pure = PurePath(path)
    if pure.is_absolute():
        posix = pure.as_posix()
        return "file://" + quote(posix if posix.startswith("/") else f"/{posix}", errors="surrogateescape")
    return quote(pure.as_posix(), errors="surrogateescape")


def _version() -> str:
    try:
        return metadata.version("ckpt_gui")
    except metadata.PackageNotFoundError:
        return "0"


# -------------------------------------------------------------------------------------------------------------- check


def check_document(plan: Plan, beside: Against | None = None) -> Document:
    """Return the report of `check`: what it is, why, the pair, what is wrong, and what to run next."""
    sections = [Section("", tuple(Text(sentence) for sentence in _opening(plan)))]
    if plan.evidence_text:
        sections.append(Section("Why", tuple(Text(sentence, bullet=True) for sentence in plan.evidence_text)))
    if plan.tie.embedding or plan.tie.head:
        sections.append(Section("Embedding and output head", (Text(tie_sentence(plan.tie)),)))
    if plan.status == "clean" and plan.family and plan.family.row_order and not beside:
        sections.append(Section("Not known without a reference", (Text(NO_REFERENCE),)))
    if beside:
        sections.append(Section(f"Against {beside.name}", tuple(Text(s) for s in beside.sentences())))
    if plan.findings:
        sections.append(Section(_count_findings(plan.findings), worst_first(plan.findings)))
    verdict, style = _verdict(plan)
    return Document(plan.source.path, tuple(sections), verdict, style, next_command(plan))


def failure_document(path: str, error: CheckpointError) -> Document:
    """Return the report of a path in which no tensor can be listed."""
    finding = error.as_finding()
    return Document(path, (Section("", (finding,)),), "Unreadable: the file can not be used as it is.", "error")


def _opening(plan: Plan) -> list[str]:
    numbers = facts(plan)
    what = [_container(plan), _where(plan), _model(plan)]
    mixed = len(numbers.dtypes) > 1
    types = ", ".join(f"{n:,} {name}" if mixed else name for name, n in numbers.dtypes.items())
    counts = f"{plural(numbers.tensors, 'tensor')}, {numbers.parameters:,} parameters, {human_bytes(numbers.nbytes)}"
    what.append(f"{counts} ({types})." if types else f"{counts}.")
    what.append(_beside(plan))
    return [" ".join(sentence for sentence in what if sentence)]


def _container(plan: Plan) -> str:
    source = plan.source
    kind = CONTAINERS.get(source.container, source.container)
    if not source.files:
        return f"A {kind}."
    size = human_bytes(sum(file.size for file in source.files))
    if len(source.files) == 1:
        name = f" (`{source.files[0].name}`)" if source.is_folder else ""
        return f"A {kind} file{name} of {size}."
    return f"{len(source.files)} {kind} files, {size} in all."


def _where(plan: Plan) -> str:
    parts = []
    if plan.section:
        parts.append(f"the weights lie under `{shown_section(plan.section)}`")
    if plan.wrappers:
        parts.append("the keys carry " + ", ".join(f"`{name}`" for name in plan.wrappers))
    text = " and ".join(parts)
    return text[:1].upper() + text[1:] + "." if text else ""


def _model(plan: Plan) -> str:
    if plan.adapter is not None:
        return _adapter(plan, plan.adapter)
    if plan.family is None or plan.layout is None:
        return "The names fit no layout that is known here."
    sizes = ", ".join(text.format(f"{plan.dims[name]:,}") for name, text in _DIMS.items() if name in plan.dims)
    layout = title_of(plan.layout.name)
    return f"{plan.family.title} in the {layout} layout" + (f": {sizes}." if sizes else ".")


def _adapter(plan: Plan, adapter: Adapter) -> str:
    targets = list(dict.fromkeys(lora.module.rpartition(".")[2] for lora in adapter.loras))
    title = title_of(plan.layout.name) if plan.layout else "adapter"
    base = f" for {plan.family.title}" if plan.family else ""
    text = f"A {title}{base} on {plural(len(adapter.loras), 'module')}"
    text += f" ({', '.join(safe_text(t, 40) for t in targets[:10])}{', …' if len(targets) > 10 else ''})"
    text += f": {scales(adapter)}"
    text += ", rslora" if adapter.config.get("use_rslora") is True else ""
    whole = [safe_text(name, 80) for name in adapter.whole]
    return text + (f"; stored whole: {', '.join(whole[:4])}{', …' if len(whole) > 4 else ''}." if whole else ".")


def _beside(plan: Plan) -> str:
    kinds = {"not-weights": "of optimizer state", "other-section": "elsewhere", "buffer": "computed and not trained"}
    parts = []
    for kind, where in kinds.items():
        refs = [d.ref for d in plan.dropped if d.kind == kind]
        if refs:
            parts.append(f"{plural(len(refs), 'tensor')} {where} ({human_bytes(unique_bytes(refs))})")
    return f"Beside them: {'; '.join(parts)}." if parts else ""


def tie_sentence(tie: Tie) -> str:
    """Say how the embedding and the output head compare, and what the config says of it."""
    flag = {True: "tied", False: "untied", None: None}[tie.flag]
    says = f"the model counts as {flag} ({tie.flag_from})" if flag else "no config says whether the two are tied"
    return f"{_tie_fact(tie)}; {says}."


def _tie_fact(tie: Tie) -> str:
    embedding, head = tie.embedding, tie.head
    if head is None:
        return f"Only the embedding is stored, `{_key(embedding)}`"
    if embedding is None:
        return f"Only the output head is stored, `{_key(head)}`"
    pair = f"`{_key(embedding)}` and `{_key(head)}`"
    return {
        "same-storage": f"{pair} are one storage under two names",
        "equal": f"{pair} are equal byte for byte ({human_bytes(head.nbytes)} each)",
        "different": f"{pair} differ: both are trained",
        "unchecked": f"{pair} are both stored; their bytes have not been compared",
        "absent": f"{pair} are both stored",
    }[tie.state]


def _key(ref: TensorRef | None) -> str:
    return ref.key if ref else ""


def _count_findings(findings: tuple[Finding, ...]) -> str:
    counts = Counter(f.severity for f in findings)
    nouns: dict[Severity, str] = {"error": "error", "warning": "warning", "info": "note"}
    return "Findings: " + ", ".join(plural(counts[name], noun) for name, noun in nouns.items() if counts[name])


def _verdict(plan: Plan) -> tuple[str, Style]:
    state = status(plan)
    if state == "clean":
        return "Clean: names, shapes and types are complete; nothing to mend.", "good"
    if state == "fixable" and plan.layout is None:
        does = "takes the wrappers off and changes nothing else" if plan.wrappers else "would only copy it"
        return f"Not recognised: it can be looked at, but not converted; fix {does}.", "warning"
    if state == "fixable":
        return "Fixable: fix writes it whole into a new folder and leaves the source as it is.", "warning"
    if state == "blocked":
        blocking = sum(1 for f in plan.findings if f.blocking)
        what = "one error above is" if blocking == 1 else f"{blocking} errors above are"
        return f"Blocked: nothing whole can be written until {what} settled.", "error"
    return "Unreadable: no tensor can be listed.", "error"


def next_command(plan: Plan) -> str:
    """Return the command to run next; empty if there is nothing to mend or nothing to be done about it."""
    if status(plan) != "fixable" or (plan.layout is None and not plan.wrappers):
        return ""
    from ckpt_gui.core.retarget import Target, retarget

    for layout in ("hf", "same"):
        blocked = {f.code for f in retarget(plan, Target(layout)).blocked}
        if not blocked or blocked == {"heads-unknown"}:
            return _fix_command(plan, layout, " --config FILE" if blocked else "")
    return ""


def _fix_command(plan: Plan, layout: str, more: str) -> str:
    path = plan.source.path
    stem = PurePath(path).stem if not plan.source.is_folder or path.endswith(".json") else PurePath(path).name
    out = f"{stem}-{'fixed' if layout == 'same' else layout}" if stem.strip(".") else "OUT"
    section = f" --section {shlex.quote('.'.join(plan.policy.section))}" if plan.policy.section else ""
    family = f" --family {plan.policy.family}" if plan.policy.family else ""
    named = f"./{path}" if path.startswith("-") else path
    return f"ckpt-gui fix {shlex.quote(named)} -o {shlex.quote(out)} --to {layout}{section}{family}{more}"


# ---------------------------------------------------------------------------------------------------------------- fix


def export_document(export: Export, verdict: str, style: Style = "", files: Iterable[str] = ()) -> Document:
    """Return the report of `fix`: steps, findings, old and new names, what is left out, files.

    Args:
        export: What will be, or was, written.
        verdict: How it ended.
        style: How the verdict looks.
        files: Files that the writer names, those with weights at least.
    """
    names = dict.fromkeys((*files, *export.texts, *export.carried))
    sections = [
        Section("", (Text(_export_opening(export)),)),
        Section("Steps", step_texts(export.steps)),
        Section("Findings", worst_first(export.findings)),
        Section("Tensors", mapping(export)),
        Section("Left out", left_out(export)),
        Section("Files", tuple(Text(f"`{name}`", bullet=True) for name in names)),
    ]
    return Document(export.plan.source.path, tuple(s for s in sections if s.items), verdict, style)


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
