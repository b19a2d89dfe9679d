"""Judge the pair of input embedding and output head by role and by bytes, never by name alone.

Two equal matrices are one, stored twice; two that differ are both trained, whatever a flag says. A head that differs
from its embedding is never left out: loaders that believe the flag would discard it, so an export says untied.
The table of cases is in the README, "The tied pair".
"""

from __future__ import annotations

from ckpt_gui.core.entry import Entry
from ckpt_gui.core.errors import Finding
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.plan import Plan, Tie, TieName
from ckpt_gui.core.tensors import TensorRef

HEAD_AS_EMBEDDING = "the head stands for the tied embedding"  # why an entry has its name


def judge_ties(plan: Plan) -> Plan:
    """Set `tie`, and rename a head that stands for a missing embedding."""
    if plan.family is None or plan.layout is None or plan.adapter is not None:
        return plan
    embedding, head = _by_role(plan, "embedding"), _by_role(plan, "head")
    flag, where = plan.config.tie_flag(plan.family.tie_default) if plan.config else (None, "")
    if plan.family.exact and plan.config:  # which of two flags decides is the model's own affair: it was built
        flag, where = plan.family.tie_default, f"as transformers builds {plan.family.title}"
    state = _state(plan, embedding, head)
    tie = Tie(flag, where, embedding.ref if embedding else None, head.ref if head else None, state)
    tie = _with_verdict(plan, tie)
    plan = plan.replace(tie=tie).found(*_findings(plan, tie))
    if head and not embedding and tie.tied:
        plan = _head_as_embedding(plan, head)
    return plan


def _by_role(plan: Plan, role: str) -> Entry | None:
    return plan.entry(plan.family.role(role)) if plan.family else None


def _state(plan: Plan, embedding: Entry | None, head: Entry | None) -> TieName:
    if embedding is None or head is None:
        return "absent"
    if any(op.name in ("merge", "replace") for e in (embedding, head) for op in e.ops):
        return "different"  # an adapter has trained one of them
    if embedding.identity == head.identity:
        return "same-storage"
    if (embedding.output.shape, embedding.output.dtype) != (head.output.shape, head.output.dtype):
        return "different"
    return plan.evidence.pairs.get(pair_key(embedding.ref, head.ref), "unchecked")


def pair_key(embedding: TensorRef, head: TensorRef) -> tuple[str, str]:
    """Return the name under which evidence about a pair is kept."""
    return (embedding.full_key, head.full_key)


def _with_verdict(plan: Plan, tie: Tie) -> Tie:
    """Set what an export will say of the pair; None where the bytes or the user have yet to decide."""
    return Tie(tie.flag, tie.flag_from, tie.embedding, tie.head, tie.state, _verdict(plan, tie))


def _verdict(plan: Plan, tie: Tie) -> bool | None:
    if tie.state in ("same-storage", "equal"):
        return tie.flag is not False or plan.policy.tie == "drop"
    if tie.state == "different":
        return False
    if tie.state == "unchecked":
        return False if tie.flag is False else None
    if tie.embedding is None:
        return True if tie.flag and tie.head is not None else None
    if tie.flag or plan.policy.tie == "copy":
        return True
    # No head is stored. In a whole file of a layout that leaves tied heads out this tells that it is tied; a bare
    # backbone has none in any case.
    tells = plan.layout is not None and not plan.layout.head_always and not plan.prefix
    return True if tie.flag is None and tells else None


def _head_as_embedding(plan: Plan, head: Entry) -> Plan:
    hub = plan.family.role("embedding") if plan.family else None
    assert hub is not None
    renamed = head.renamed(hub, why=HEAD_AS_EMBEDDING)
    return plan.replace(entries=tuple(renamed if e is head else e for e in plan.entries))


def _findings(plan: Plan, tie: Tie) -> list[Finding]:
    if tie.state in ("same-storage", "equal"):
        return _equal(plan, tie)
    if tie.state == "different":
        return _different(tie)
    if tie.state == "unchecked":
        return [_unchecked(tie)]
    if tie.head is not None and tie.embedding is None and tie.tied:
        return [_renamed(tie.head)]
    return []


def _keys(tie: Tie) -> tuple[str, ...]:
    return tuple(ref.key for ref in (tie.head, tie.embedding) if ref is not None)


def _equal(plan: Plan, tie: Tie) -> list[Finding]:
    assert tie.head is not None
    assert tie.embedding is not None
    head, embedding = safe_text(tie.head.key), safe_text(tie.embedding.key)
    how = "is the same storage as" if tie.state == "same-storage" else "equals"
    if not tie.tied:
        text = f"`{head}` {how} `{embedding}`, but the model counts as untied ({tie.flag_from}): both are kept."
        return [Finding("tied-flag", "info", text, _keys(tie), "If they are meant to be tied, set the flag to true.")]
    if (plan.layout is not None and plan.layout.head_always) or tie.state == "same-storage":
        return []  # the layout wants it, or it takes no room
    text = f"`{head}` {how} `{embedding}` byte for byte: a copy of {tie.head.nbytes:,} bytes."
    fix = "fix leaves the head out for hf and torchtune, and writes it for meta, where it belongs."
    return [Finding("tied-redundant", "warning", text, _keys(tie), fix)]


def _different(tie: Tie) -> list[Finding]:
    assert tie.head is not None
    assert tie.embedding is not None
    if not tie.flag:
        return []
    text = (
        f"`{safe_text(tie.head.key)}` differs from `{safe_text(tie.embedding.key)}`, yet the model counts as tied "
        f"({tie.flag_from}): loaders that believe the flag silently throw the trained head away."
    )
    if tie.head.dtype != tie.embedding.dtype and tie.head.shape == tie.embedding.shape:
        text += (
            f" They have different types ({tie.head.dtype} and {tie.embedding.dtype}) and count as different, even if "
            "their values are the same after a cast."
        )
    fix = "fix keeps both and sets tie_word_embeddings to false at every level of the config."
    return [Finding("tied-conflict", "error", text, _keys(tie), fix)]


def _unchecked(tie: Tie) -> Finding:
    text = "The bytes of the embedding and the output head have not been compared."
    return Finding("tied-unchecked", "info", text, _keys(tie), "fix compares them fully before it leaves anything out.")


def _renamed(head: TensorRef) -> Finding:
    text = (
        f"The tied pair is stored under the head's name alone, `{safe_text(head.key)}`: transformers 4 builds the "
        "model without an embedding and does not say so."
    )
    return Finding("tied-renamed", "warning", text, (head.key,), "fix stores it under the embedding's name.")
