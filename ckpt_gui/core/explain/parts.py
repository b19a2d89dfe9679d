"""Messages about parts of models: training runs not gathered, shards and their index (kinds E, I).

Texts of torch 2.13, DeepSpeed, Meta's llama, transformers, vLLM and llama.cpp.
"""

from __future__ import annotations

import re

from ckpt_gui.core.explain.cause import CHECK, HF, SAME, Cause, Step, found, to

_key = re.compile
_GATHER = (
    "Open the folder of the training run here: the parts of all ranks are put together. This file alone "
    "holds too little; nothing is written from it."
)
_MENDED = to("same", "--assigned-only")
_SIZE = r"size mismatch for (?P<key>[\w.\-]{1,300}): copying a param with shape torch\.Size\(\["
_MODEL = r"\]\) from checkpoint, the shape in current model is torch\.Size\(\["
PARTS: tuple[Cause, ...] = (
    Cause(
        "placeholder", "E", 5,
        "`{key}` has the shape [0] in the file: a placeholder of DeepSpeed's ZeRO 3. The weights are not in this "
        "file.",
        _GATHER,
        (CHECK, HF),
        found(_SIZE + r"0" + _MODEL),
        codes=("partitioned-state",),
    ),
    Cause(
        "placeholder-old", "E", 4,
        "`{key}` has the shape [1] in the file, as the placeholders of old DeepSpeed releases have. The weights are "
        "not in this file.",
        _GATHER,
        (CHECK, HF),
        found(_SIZE + r"1" + _MODEL + r"\d{2,}"),
        codes=("partitioned-state",),
    ),
    Cause(
        "live-placeholder", "E", 5,
        "The file is fine as far as this says: the running model is partitioned (ZeRO 3), its `{key}` is an empty "
        "placeholder.",
        "Load before the model is partitioned, or through DeepSpeed's own loader. `check` confirms that the file is "
        "whole.",
        (CHECK,),
        found(_SIZE + r"\d[\d, ]{0,60}" + _MODEL + r"0\]"),
    ),
    Cause(
        "flat-slice", "E", 5,
        "`{key}` has {size} elements in one row in the file: a slice of a flattened FSDP unit, saved by one rank.",
        _GATHER,
        (CHECK, HF),
        found(_SIZE + r"(?P<size>\d{4,20})" + _MODEL + r"\d{1,9}, "),
        codes=("partitioned-state",),
    ),
    Cause(
        "flat-param", "E", 5,
        "`{key}` is a flattened unit of FSDP: the names and shapes of the weights in it are not in this file. Taking "
        "off the prefix does not help.",
        _GATHER,
        (CHECK, HF), named=_key(r"(?:^|[._])_?flat_param"), codes=("partitioned-state",),
    ),
    Cause(
        "model-parallel", "E", 5,
        "The model is stored in {files} files of Meta's (tensor-parallel ranks), and the program was started with "
        "{ranks} processes. 0 files means the wrong folder.",
        "Export it in as many files as there are processes, or to a layout that has no ranks.",
        (to("meta", "--model-parallel", "1"), HF),
        found(r"Loading a checkpoint for MP=(?P<files>\d{1,5}) but world size is (?P<ranks>\d{1,5})"),
        codes=("shard-missing",),
    ),
    Cause(
        "dcp-metadata", "E", 4,
        "The folder is no distributed torch checkpoint: it has no `.metadata`. The right one may be one level down, "
        "as `pytorch_model_fsdp_0`.",
        "Open the folder of the run here; what it is made of is found out.",
        (CHECK, HF),
        found(r"No such file or directory:? ?[\"']?[^\"'\n]{0,300}?\.metadata\b"),
        codes=("partitioned-state",),
    ),
    Cause(
        "zero-files", "E", 4,
        "Files of some ranks are absent, or the folder is not the one that DeepSpeed wrote.",
        "Bring the files of all ranks into one folder; `check` names those that are absent.",
        (CHECK, HF),
        found(
            r"Unable to find '?latest'? file",
            r"\*?_?optim_states\.pt'? under .{1,300} but found \d{1,5} files",
            r"is not a zero checkpoint",
            r"can't find model_states files",
        ),
        codes=("shard-missing", "partitioned-state"),
    ),
    Cause(
        "dtensor", "E", 5,
        "The file holds DTensors: weights as FSDP 2 or tensor parallelism keeps them, saved by each rank without "
        "gathering.",
        _GATHER,
        (CHECK, HF),
        found(
            r"Unsupported global: GLOBAL torch\.distributed\.[\w.]{1,100}",
            r"mixed torch\.Tensor and DTensor",
            r"torch\.distributed\.(?:_?tensor)[\w.]{0,60}\.DTensor",
        ),
        codes=("partitioned-state",),
    ),
    Cause(
        "meta-tensor", "E", 4,
        "The model stands on torch's `meta` device: it has shapes and no values, because a weight was never loaded "
        "into it. Most often names did not match, or the load was partial.",
        "`check` says which names the file has and lacks. Load with `assign=True`, or with `low_cpu_mem_usage=False`.",
        (CHECK, HF),
        found(
            r"Cannot copy out of meta tensor",
            r"to a meta parameter in the current model",
            r"Tensor on device meta is not on the expected device",
        ),
        codes=("missing-tensor",),
    ),
    Cause(
        "weight-2d", "E", 3,
        "The embedding is empty or flat: it is a placeholder of a partitioned model (ZeRO 3 or FSDP), in the file or "
        "in the running model.",
        _GATHER,
        (CHECK,),
        found(r"'weight' must be 2-D"),
        codes=("partitioned-state",),
    ),
    Cause(
        "shard-missing", "I", 5,
        "The shard `{file}` is not in the folder: not downloaded, or the index is that of another save.",
        "Download that one file. If the others hold all tensors, write a new index.",
        (CHECK, SAME),
        found(
            (
                r"(?:No such file|not appear to have a file|does not exist|not "
                r"found).{0,300}?(?P<file>[\w\-]{1,60}-\d{5}-of-\d{5}\.(?:safetensors|bin))"
            ),
            r"(?P<file>[\w\-]{1,60}-\d{5}-of-\d{5}\.(?:safetensors|bin))[\"']? (?:does not exist|not found|is missing)",
        ),
        codes=("shard-missing", "index-stale"),
    ),
    Cause(
        "duplicate", "I", 5,
        "A tensor is in two files of the folder: two sets of shards, or Mistral's or Meta's `consolidated` file "
        "beside the shards.",
        "`check` names the models in the folder. Take one, or only what the index names.",
        (CHECK, _MENDED, Step("check", ("--take", "FILE"))),
        found(r"[Dd]uplicated? tensor(?: name)?\b", r"[Dd]uplicate weight"),
        codes=("duplicate-tensor", "several-models"),
    ),
    Cause(
        "two-models", "I", 3,
        "The program met `{key}`, a name of Meta's or Mistral's: a `consolidated` file beside the Hugging Face "
        "shards, or a file of that layout alone.",
        "`check` names the models in the folder. Take the shards only, or export the file.",
        (CHECK, _MENDED, HF),
        found(
            (
                r"KeyError: [\"'](?P<key>(?:layers\.\d{1,4}\.(?:attention|feed_forward)\.[\w.]{1,60}|"
                r"tok_embeddings\.weight))[\"']"
            ),
        ),
        codes=("several-models", "duplicate-tensor"),
    ),
    Cause(
        "index-fields", "I", 4,
        "The index has no `{key}`: it was written by hand or by another tool.",
        "Write a new index; the export does.",
        (CHECK, SAME),
        found(r"KeyError: [\"'](?P<key>metadata|weight_map|total_size)[\"']"),
        codes=("index-stale", "index-unsafe"),
    ),
    Cause(
        "tensor-absent", "I", 2,
        "The file holds no `{key}`, though the index or the program says so: a shard of another revision, or a "
        "broken transfer.",
        "`check` says which tensors the index and the shards disagree about.",
        (CHECK, SAME),
        found(
            r"does not contain tensor `?(?P<key>(?!lm_head\.weight)[\w.\-]{1,300})",
            r"missing tensor [\"'](?P<key>(?!output\.weight)[^\"']{1,300})[\"']",
            r"Missing tensors: ?\[[\"'](?P<key>[^\"']{1,300})[\"']",
        ),
        codes=("index-stale", "shard-missing", "missing-tensor"),
    ),
    Cause(
        "tensor-count", "I", 2,
        "The program expects {want} tensors and the file has {have}: another release of the converter, or a part "
        "that is lost.",
        "`check` compares them with the architecture.",
        (CHECK,),
        found(r"wrong number of tensors; expected (?P<want>\d{1,9}), got (?P<have>\d{1,9})"),
        codes=("missing-tensor",),
    ),
    Cause(
        "unindexed", "I", 4,
        "Shards hold tensors that the index does not name.",
        "Write a new index, or leave those tensors out.",
        (CHECK, SAME, _MENDED),
        found(r"contain tensors absent from the index"),
        codes=("shard-unindexed",),
    ),
)  # fmt: skip
