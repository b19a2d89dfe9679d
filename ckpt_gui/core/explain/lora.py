"""Messages about LoRA adapters (kind H).

Texts of torch 2.13, peft 0.15, litgpt, vLLM and unsloth.
"""

from __future__ import annotations

import re

from ckpt_gui.core.explain.cause import CHECK, HF, SAME, Cause, Step, found

_MERGE = Step("fix", ("--adapter", "ADAPTER", "--to", "hf"))

LORA: tuple[Cause, ...] = (
    Cause(
        "adapter-keys", "H", 5,
        "The adapter's names are not those of the model, and peft goes on without it: the text is that of the base "
        "model. A wrapper's prefix, a lacking `base_model.model.` or an odd adapter name does that.",
        "Open the adapter here: `check` says which modules it would change. Export it under peft's names, or merge "
        "it.",
        (CHECK, SAME, _MERGE),
        found(r"Found missing adapter keys while loading the checkpoint"),
        codes=("wrapper-prefix", "adapter-empty"),
    ),
    Cause(
        "adapter-size", "H", 5,
        "The adapter's `{key}` has another shape than the model's: trained on another base, with another rank, or "
        "under another vocabulary.",
        "Open the base and merge the adapter into it; what does not fit is named.",
        (CHECK, _MERGE),
        found(r"size mismatch for (?P<key>[\w.\-]{0,250}?lora_[\w.\-]{1,60}):"),
    ),
    Cause(
        "adapter-unmerged", "H", 5,
        "The file is a model with an adapter in it that was not merged, or an adapter: `{key}`. Dropping these names "
        "would drop the fine-tune.",
        "Export it, which merges pairs whose base is inside; for an adapter alone, open its base and merge it.",
        (CHECK, HF, _MERGE),
        named=re.compile(
            r"lora_[AaBb](?:\.|$)|lora_(?:magnitude|embedding)|\.base_layer\.|"
            r"^base_model\.model\.(?!.{0,200}lm_head)"
        ),
        codes=("lora-unmerged",),
    ),
    Cause(
        "adapter-refused", "H", 4,
        "The converter takes no checkpoint with an adapter in it.",
        "Merge it first; the export does.",
        (CHECK, HF, _MERGE),
        found(r"Checkpoints with LoRA weights cannot be converted", r"Converting adapter models is not supported"),
        codes=("lora-unmerged",),
    ),
    Cause(
        "adapter-targets", "H", 4,
        "The adapter names modules that the base does not have: it was trained on another family or layout.",
        "Open the base, and merge the adapter into it: names of both layouts are known.",
        (CHECK, _MERGE),
        found(
            r"Target modules .{1,300}? not found in the base model",
            r"expected target modules in .{1,300}? but received",
        ),
    ),
    Cause(
        "adapter-config", "H", 4,
        "The adapter's config is absent or lacks a field: its rank, alpha and base are not known.",
        "Put `adapter_config.json` beside the weights, or give alpha by hand.",
        (Step("check", ("--lora-alpha", "16")),),
        found(r"KeyError: [\"']base_model_name_or_path[\"']", r"Can't find [\"']adapter_config\.json[\"']"),
        codes=("adapter-empty", "config-missing"),
    ),
    Cause(
        "adapter-extracted", "H", 4,
        "The names that were merged are not those that were expected, most often by the tied head, or by experts "
        "that are packed otherwise.",
        "Merge the adapter into its base here; each module is told with its change.",
        (CHECK, _MERGE),
        found(r"Extracted keys ?= ?.{1,300}? do not match"),
    ),
    Cause(
        "adapter-rank", "H", 4,
        "The adapter's rank {rank} is over the limit of the server.",
        "Start the server with a higher limit, or merge the adapter.",
        (_MERGE,),
        found(r"LoRA rank (?P<rank>\d{1,6}) is greater than max_lora_rank"),
    ),
)  # fmt: skip
