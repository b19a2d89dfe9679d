"""The report of `check` in words: what it is, why, the pair, what is wrong, and what to run next."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator
from pathlib import PurePath
from typing import TYPE_CHECKING

from ckpt_gui.core.errors import CheckpointError, Finding, Severity, worst_first
from ckpt_gui.core.plan import Plan, Tie
from ckpt_gui.core.report.facts import status
from ckpt_gui.core.report.opening import opening
from ckpt_gui.core.tensors import TensorRef
from ckpt_gui.core.text import Document, Section, Style, Text, human_bytes, plural

if TYPE_CHECKING:
    from ckpt_gui.core.against import Against
    from ckpt_gui.core.export import Export
    from ckpt_gui.core.scan import Scan

NO_REFERENCE = (
    "Whether the rows of q and k lie in the order that their names say, and whether norms or gate and up have changed "
    "places, can not be seen in one file: --against compares it with another checkpoint."
)
STAYS = ("rope-permuted", "values-reordered", "tensors-swapped")  # beside a reference; an export mends none of them


def check_document(plan: Plan, beside: Against | None = None, scanned: Scan | None = None) -> Document:
    """Return the report of `check`: what it is, why, the pair, what is wrong, and what to run next."""
    sections = [Section("", tuple(Text(sentence) for sentence in opening(plan)))]
    if plan.evidence_text:
        sections.append(Section("Why", tuple(Text(sentence, bullet=True) for sentence in plan.evidence_text)))
    if plan.tie.embedding or plan.tie.head:
        sections.append(Section("Embedding and output head", (Text(tie_sentence(plan.tie)),)))
    if plan.status == "clean" and plan.family and plan.family.row_order and not beside:
        sections.append(Section("Not known without a reference", (Text(NO_REFERENCE),)))
    if beside:
        sections.append(Section(f"Against {beside.name}", tuple(Text(s) for s in beside.sentences())))
    if scanned:
        sections.append(Section("Values", tuple(Text(sentence) for sentence in _values(scanned))))
    if plan.findings:
        sections.append(Section(_count_findings(plan.findings), worst_first(plan.findings)))
    verdict, style = _verdict(plan)
    return Document(plan.source.path, tuple(sections), verdict, style, next_command(plan))


def _values(numbers: Scan) -> Iterator[str]:
    """Say how much was read, and how many parameters there are with and without aliases."""
    broken = sum(1 for tensor in numbers.tensors if tensor.error)
    read, size = plural(len(numbers.tensors) - broken, "tensor"), human_bytes(numbers.done)
    yield f"{read} of {len(numbers.tensors):,} could be read." if broken else f"Every weight was read: {read}, {size}."
    if numbers.parameters_stored != numbers.parameters:
        yield (
            f"{numbers.parameters:,} parameters; {numbers.parameters_stored:,} if those that several names share are "
            "counted for each."
        )
    without = [t for t in numbers.tensors if t.stats.reason and not t.error]
    if without:
        yield f"No figures for {plural(len(without), 'tensor')}: {without[0].stats.reason}"


def failure_document(path: str, error: CheckpointError) -> Document:
    """Return the report of a path in which no tensor can be listed."""
    finding = error.as_finding()
    return Document(path, (Section("", (finding,)),), "Unreadable: the file can not be used as it is.", "error")


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
    if state == "fixable" and any(f.code in STAYS for f in plan.findings):
        return "Not mended by fix alone, which carries values as they are: do what is said above first.", "error"
    if state == "fixable":
        return "Fixable: fix writes it whole into a new folder and leaves the source as it is.", "warning"
    if state == "blocked":
        blocking = sum(1 for f in plan.findings if f.blocking)
        what = "one error above is" if blocking == 1 else f"{blocking} errors above are"
        return f"Blocked: nothing whole can be written until {what} settled.", "error"
    return "Unreadable: no tensor can be listed.", "error"


def next_export(plan: Plan) -> Export | None:
    """Return the export that mends a checkpoint; None if nothing is to be mended, or nothing can be done about it."""
    if status(plan) != "fixable" or (plan.layout is None and not plan.wrappers):
        return None
    if all(f.code in STAYS for f in plan.findings if f.severity != "info"):
        return None
    from ckpt_gui.core.export import Target
    from ckpt_gui.core.retarget import retarget

    for layout in ("hf", "same"):
        export = retarget(plan, Target(layout))
        if {f.code for f in export.blocked} <= {"heads-unknown"}:
            return export
    return None


def next_command(plan: Plan) -> str:
    """Return the command to run next; empty if there is nothing to mend or nothing to be done about it."""
    export = next_export(plan)
    if export is None:
        return ""
    return _fix_command(plan, export.target.layout, " --config FILE" if export.blocked else "")


def _fix_command(plan: Plan, layout: str, more: str) -> str:
    path = plan.source.path
    stem = PurePath(path).stem if not plan.source.is_folder or path.endswith(".json") else PurePath(path).name
    out = f"{stem}-{'fixed' if layout == 'same' else layout}" if stem.strip(".") else "OUT"
    section = f" --section {shlex.quote('.'.join(plan.policy.section))}" if plan.policy.section else ""
    family = f" --family {plan.policy.family}" if plan.policy.family else ""
    take = f" --take {shlex.quote(plan.source.taken)}" if plan.source.taken else ""
    assigned = " --assigned-only" if plan.policy.assigned_only else ""
    named = f"./{path}" if path.startswith("-") else path
    chosen = f"{take}{section}{family}{assigned}"
    return f"ckpt-gui fix {shlex.quote(named)} -o {shlex.quote(out)} --to {layout}{chosen}{more}"
