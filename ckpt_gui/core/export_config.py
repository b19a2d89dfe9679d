"""The config files that an export gets, and the small files that it takes along."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

from ckpt_gui import dataclasses
from ckpt_gui.core.config_write import hf_config, meta_params, with_flag
from ckpt_gui.core.dtypes import BY_NAME
from ckpt_gui.core.export import Export, Target
from ckpt_gui.core.families.layouts import KINDS
from ckpt_gui.core.flat_yaml import dump
from ckpt_gui.core.keys import anonymous
from ckpt_gui.core.litgpt_config import NAME as LIT
from ckpt_gui.core.litgpt_config import lit_config
from ckpt_gui.core.model_config import FLAGS, ModelConfig
from ckpt_gui.core.openai_config import to_openai
from ckpt_gui.core.passes.recognise import config_of_known
from ckpt_gui.core.plan import Plan
from ckpt_gui.core.stated_heads import stated_heads


def export_dtype(export: Export) -> str:
    """Return the element type of most of the weights."""
    counts: Counter[str] = Counter()
    alike = Counter((e.output.dtype, e.output.shape) for e in export.entries)  # few, however many tensors there are
    for (dtype, shape), number in alike.items():
        if BY_NAME[dtype].kind == "float":
            counts[dtype] += math.prod(shape) * number
    return counts.most_common(1)[0][0] if counts else "bf16"


def export_config(plan: Plan, target: Target) -> ModelConfig | None:
    """Return the source's config; where it has none, that of the published model that has its sizes."""
    found = config_of_known(plan) if target.layout != "same" else None
    return found[0] if found else plan.config


def with_files(export: Export, config: ModelConfig | None) -> Export:
    """Add the config files to write and the sidecars to carry."""
    texts: dict[str, str] = {}
    plan, name = export.plan, export.layout.name if export.layout else None
    enough = {"heads", "kv_heads", "hidden", "ffn"} <= plan.dims.keys()
    codes = export.target.layout == "same" and any(f.code == "quantised" for f in plan.findings)  # shapes tell no size
    if config and plan.family and not codes and (enough or (config.is_hf and not stated_heads(plan))):
        if name and KINDS[name].config == "config.json":
            made = _hf(export, config)
            texts["config.json"] = json_file(to_openai(made) if name == "openai" else made)
            if name == "litgpt" and (lit := lit_config(plan.family, config, made, plan.dims)) is not None:
                texts[LIT] = dump(lit)
        elif name in ("meta", "mixtral-release") and enough:
            heads = max(plan.dims["kv_heads"], export.ranks)  # copies count, in files for more ranks than heads
            texts["params.json"] = json_file(meta_params(plan.family, config, {**plan.dims, "kv_heads": heads}))
    elif config and export.target.layout == "same":
        known = config.is_hf and plan.tie.tied is not None
        raw = with_flag(config.raw, bool(plan.tie.tied)) if known else config.raw
        raw = to_openai(raw) if name == "openai" else raw
        texts["params.json" if config.origin == "params.json" else "config.json"] = json_file(raw)
    carried = _carried(export, texts)
    return dataclasses.replace(export, texts=texts, carried=carried)


def _hf(export: Export, config: ModelConfig) -> dict[str, Any]:
    plan = export.plan
    assert plan.family is not None
    present = plan.groups
    biases = {s.when for s in plan.family.slots if s.when in FLAGS and anonymous(s.key) in present}
    return hf_config(
        plan.family, config, plan.dims, dtype=export_dtype(export), tied=bool(plan.tie.tied), biases=frozenset(biases)
    )


def _carried(export: Export, texts: Mapping[str, str]) -> dict[str, str]:
    """Return the sidecar files to copy; the base folder fills what the source lacks."""
    found: dict[str, str] = {}
    for sidecars in (export.target.base, export.plan.source.sidecars):
        if sidecars and sidecars.folder:
            found |= {name: f"{sidecars.folder}/{name}" for name in sidecars.carried if name not in texts}
    return found


def json_file(value: Mapping[str, Any]) -> str:
    """Return the text of a config file."""
    return json.dumps(value, indent=2, ensure_ascii=True, default=str) + "\n"
