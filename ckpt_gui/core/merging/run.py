"""Merge an adapter into a base: what is refused, the steps in their order, and what came of them."""

from __future__ import annotations

from ckpt_gui.core.adapters import Adapter
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.families.numbering import numbered_by_hub
from ckpt_gui.core.families.schema import Layout
from ckpt_gui.core.joined import joined_source, with_refs
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.merging.ends import keep_the_pair
from ckpt_gui.core.merging.result import finished
from ckpt_gui.core.merging.work import Work
from ckpt_gui.core.passes.adapter_findings import BASE_LAYOUT
from ckpt_gui.core.plan import Plan

# Layouts with the names that modules have in memory, which PEFT takes, where those of the files are others.
IN_MEMORY = ("hf-memory", "hf-fused")


def merge_adapter(plan: Plan, adapter_plan: Plan) -> Plan:
    """Return the plan of a base with an adapter merged into it.

    Args:
        plan: The base's; its tied pair compared, its config known if it ever will be.
        adapter_plan: The adapter's.

    Raises:
        CheckpointError: The second is no adapter, or empty, or nothing of it is in the base.
    """
    if not adapter_plan.entries:
        raise CheckpointError(
            "adapter-empty",
            f"{safe_text(adapter_plan.source.path)} holds no tensor: merged, it would change nothing.",
            fix="Look for the adapter in another file, or save it again with the weights gathered.",
        )
    if adapter_plan.adapter is None:
        raise CheckpointError(
            "adapter-unmatched",
            f"{safe_text(adapter_plan.source.path)} is no adapter of a kind that is known here.",
            fix="Name the folder or file with lora_A and lora_B (PEFT) or lora_a and lora_b (torchtune).",
        )
    if adapter_plan.adapter.others:
        found = next(f for f in adapter_plan.findings if f.code == "adapter-unmatched")
        raise CheckpointError(found.code, found.message, fix=found.fix)
    source, moved = joined_source(plan.source, adapter_plan.source)
    adapter = with_refs(adapter_plan.adapter, moved)
    work = Work(plan, adapter, source, _layout(plan, adapter))
    work.fit_names()
    keep_the_pair(work)
    work.replace()
    work.merge()
    work.put_rows()
    if not work.touched and not work.added:
        raise CheckpointError(
            "adapter-empty",
            f"0 of {len(adapter.loras):,} modules of the adapter are in the base: nothing would change. The adapter "
            f"has `{safe_text(_first(adapter))}`, the base `{safe_text(next(iter(work.stored), 'nothing'))}`.",
            fix="Take the base that the adapter was trained on.",
        )
    return finished(work, adapter_plan, moved)


def _layout(plan: Plan, adapter: Adapter) -> Layout | None:
    """Return the layout of the base's family whose names the adapter has; None where names are taken as they are."""
    name = BASE_LAYOUT[adapter.style]
    if plan.family is None:
        return None
    layout = plan.family.layout(name)
    if layout is None:
        raise CheckpointError(
            "adapter-unmatched", f"{plan.family.title} has no layout {name}, whose names the adapter has."
        )
    keys = [e.key for e in plan.entries]
    ways = [layout, *(w for n in IN_MEMORY if name == "hf" and (w := plan.family.layout(n)))]
    numbered = [numbered_by_hub(way, plan.family, keys)[0] for way in ways]
    return max(numbered, key=lambda way: Work(plan, adapter, plan.source, way).most_found())  # the first of equals


def _first(adapter: Adapter) -> str:
    return next((f"{lora.module}.weight" for lora in adapter.loras), next(iter(adapter.whole), ""))
