"""The content of EXPORT_REPORT.json: what was made from what, how, and what the result is used with.

It stands beside the weights, so that an export can be traced and the way back is known. It holds no time and no folder
name: the same export gives the same report.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ckpt_gui.core.config_write import hf_config
from ckpt_gui.core.export import Export
from ckpt_gui.core.export_config import export_dtype
from ckpt_gui.core.families.tasks import CLASSIFIERS, is_classifier
from ckpt_gui.core.fill import Filled
from ckpt_gui.core.out_files import OutFile
from ckpt_gui.core.plan import Plan
from ckpt_gui.core.shards import ShardResult
from ckpt_gui.core.version import version

_PLAIN_THETA = 10000.0  # of torchtune's llama2_classifier, which takes no other


def make_report(export: Export, files: tuple[OutFile, ...], results: Sequence[ShardResult]) -> dict[str, Any]:
    """Return what was made from what, how, and the checksum of every tensor."""
    done = {result.name: result for result in results}
    plan = export.plan
    source = plan.source
    return {
        "schema": 1,
        "tool": {"name": "ckpt_gui", "version": version()},
        "source": {
            "name": Path(source.path).name,
            "container": source.container,
            "files": [{"name": f.name, "bytes": f.size} for f in source.files],
            "section": list(plan.section),
            "wrappers": list(plan.wrappers),
            "layout": plan.layout.name if plan.layout else None,
        },
        "family": plan.family.name if plan.family else None,
        "layout": export.layout.name if export.layout else None,
        "row_order": dict(plan.family.row_order).get(export.layout.name) if plan.family and export.layout else None,
        "dims": dict(plan.dims),
        "tied": plan.tie.tied,
        "source_config": _true_config(export),
        "steps": [{"id": s.id, "title": s.title, "count": s.count, "evidence": s.evidence} for s in export.steps],
        "edits": _edits(export),
        "use_with": use_with(export),
        "notes": [f.message for f in export.findings],
        "dropped": [{"key": d.ref.full_key, "reason": d.reason} for d in export.dropped],
        "beside": [d.ref.full_key for d in export.beside],
        "left_out": list(export.left_out),
        "files": [_file_report(f, done[f.name]) for f in files],
        "tensors": {
            f"{f.name}: {key}" if export.ranks > 1 else key: row
            for f in files
            for key, row in _tensor_rows(f, done[f.name].filled, plan.dims)
        },
    }


def _edits(export: Export) -> dict[str, Any]:
    """Return what the user changed by hand: rules with what they renamed, and fields with their new values."""
    policy = export.plan.policy
    rules = zip(policy.renames, export.plan.edited, strict=False)
    return {
        "renames": [
            {"old": rule.old, "new": rule.new, "kind": rule.kind, "names": {one.full_key: one.after for one in made}}
            for rule, made in rules
            if made
        ],
        "config": {edit.name: edit.value for edit in policy.config},
        "metadata": {edit.name: edit.value for edit in export.target.metadata},
    }


def _true_config(export: Export) -> dict[str, Any] | None:
    """Return the source's Hugging Face config with sizes and tie flag as the tensors have them, for the way back."""
    plan = export.plan
    config = plan.config
    if config is None or not config.is_hf or plan.adapter is not None:
        return None  # Meta's params.json is written as such wherever it is needed
    if plan.family is None:
        return dict(config.raw)
    return hf_config(
        plan.family, config, plan.dims, dtype=export_dtype(export), tied=bool(plan.tie.tied), biases=frozenset()
    )


def _file_report(file: OutFile, result: ShardResult) -> dict[str, Any]:
    row: dict[str, Any] = {"name": file.name, "bytes": file.layout.nbytes, "tensors": file.weights}
    return row | ({"sha256": result.sha256} if result.sha256 else {})


def _tensor_rows(file: OutFile, filled: Filled, dims: Mapping[str, int]) -> list[tuple[str, dict[str, Any]]]:
    entries = {p.name: p.entry for p in file.parts}
    rows = []
    for key, name in file.keys.items():
        entry = entries[name]
        row: dict[str, Any] = {"from": [r.full_key for r in entry.inputs], "crc32": f"{filled.crcs[name]:08x}"}
        if entry.ops:
            row["ops"] = [op.describe(dims) for op in entry.ops]
        if filled.overflow.get(name):
            row["overflow"] = filled.overflow[name]
        rows.append((key, row))
    return rows


def use_with(export: Export) -> dict[str, str]:
    """Return how the export is used: for torchtune the model_type, and what its own type would do to an untied head."""
    if export.layout is None or export.plan.family is None or export.layout.name not in ("torchtune", "meta"):
        return {}
    if export.ranks > 1:  # torchtune reads one file
        return {}
    tied, tune = bool(export.plan.tie.tied), export.plan.family.layout("torchtune")
    if is_classifier(export.plan.family):
        return _classifier_with_torchtune(export.plan)
    if export.plan.family.name == "llama":
        return _llama_with_torchtune(tied, export.plan.dims.get("vocab", 0))
    if tune is None or not tune.program_type:
        return {}
    note = {"torchtune_model_type": tune.program_type}
    if not tied and tune.always_ties:
        note["warning"] = "The head is its own. torchtune's builders of this family always tie, and refuse it."
    return note


def _llama_with_torchtune(tied: bool, vocab: int) -> dict[str, str]:
    model_type = "LLAMA3_2" if tied else "LLAMA3" if vocab >= 128000 else "LLAMA2"
    if tied:
        return {"torchtune_model_type": model_type}
    warning = (
        "The head is its own. torchtune's LLAMA3_2 builders always tie and would drop it: use "
        f"{model_type} with an untied builder (llama3_1)."
    )
    return {"torchtune_model_type": model_type, "warning": warning}


def _classifier_with_torchtune(plan: Plan) -> dict[str, str]:
    """Return with what torchtune builds a classifier: two builders, of which one takes no other rotary base."""
    assert plan.family is not None
    config, name = plan.config, plan.family.name
    if name not in CLASSIFIERS:
        text = "torchtune builds classifiers of Llama and Mistral alone; none of its builders makes a"
        return {"warning": f"{text} {plan.family.title}."}
    used = {"torchtune_model_type": "REWARD"}
    theta = config.rope_theta if config and config.rope_theta is not None else _PLAIN_THETA
    if config and (config.rope_scaling or {}).get("rope_type", "default") != "default":
        text = "torchtune's classifiers do not scale rotary frequencies, as this model does"
        return used | {"warning": f"{text}: they would compute other values."}
    builder = CLASSIFIERS[name] if theta == _PLAIN_THETA else CLASSIFIERS["mistral"]
    words = f"num_classes={plan.dims.get('labels', 1)}" + (f", rope_base={theta:.0f}" if theta != _PLAIN_THETA else "")
    return used | {"builder": f"Its builder is {builder}({words}, …) of torchtune.models.{builder.split('_')[0]}."}
