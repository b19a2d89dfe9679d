"""Messages about names: other layouts, wrapper prefixes, nesting (kinds C, D, N); shared placeholders besides (E).

Texts of torch 2.13, transformers 4.57 and 5, torchtune 0.6, litgpt 0.5, vLLM, llama.cpp's converter and mlx-lm. Which
kind a list of keys belongs to follows from the keys: a wrapper's segment first, then the layout.
"""

from __future__ import annotations

import re

from ckpt_gui.core.explain.cause import CHECK, CONFIG, HF, SAME, Cause, Step, found, to

_key = re.compile
_BUFFER = _key(
    r"(?:rope\.freqs|inv_freq|position_ids|masked_bias|attn\.bias|freqs_cis|rotary_emb\.\w{1,40}|"
    r"causal_mask)$"
)
_META = _key(
    r"(?:^|\.)(?:layers\.\d{1,4}\.attention\.w[qkvo]\.|layers\.\d{1,4}\.feed_forward\.w[123]\.|"
    r"tok_embeddings\.weight)"
)
_TUNE = _key(r"(?:^|\.)layers\.\d{1,4}\.(?:attn\.\w|sa_norm|mlp\.w[123]\.|mlp_norm)|(?:^|\.)norm\.scale$")
_HUB = _key(r"layers\.\d{1,4}\.(?:self_attn|input_layernorm|mlp\.(?:gate|up|down)_proj)|embed_tokens")
_LITGPT = _key(
    r"^transformer\.h\.\d{1,4}\.(?:attn\.(?:attn|qkv|proj)\.|norm_[12])|"
    r"^transformer\.h\.\d{1,4}\.mlp\.(?:fc|proj)"
)
_OTHER = _key(r".")
_WRITE = "Export it to the layout that the program reads; the values are put in its order where that differs."
_STRIP = "Export it: the segments are taken off wherever they stand, one to one, and the rest stays."


def _wrapper(name: str, by: str, pattern: str) -> Cause:
    """Return the cause of a segment that a wrapper leaves in the names."""
    says = f"The weights were saved from {by}: the names have `{name}` in them, as in `{{key}}`. The values are fine."
    return Cause(
        f"prefix-{name.strip('_.')}", "D", 5, says, _STRIP, (CHECK, SAME, HF),
        named=_key(pattern), codes=("wrapper-prefix",),
    )  # fmt: skip


NAMES: tuple[Cause, ...] = (
    _wrapper("_orig_mod.", "a model that `torch.compile` had wrapped", r"(?:^|\.)_orig_mod\."),
    _wrapper(
        "_checkpoint_wrapped_module.", "a model with activation checkpointing",
        r"(?:^|\.)_checkpoint_wrapped_module\.",
    ),
    _wrapper(
        "_fsdp_wrapped_module.", "a model wrapped by FSDP",
        r"(?:^|\.)_fsdp_wrapped_module\.(?!.{0,200}_flat_param)",
    ),
    _wrapper("_forward_module.", "a strategy of Lightning or DeepSpeed", r"(?:^|\.)_forward_module\."),
    _wrapper("module.", "DistributedDataParallel, DataParallel or an averaged model", r"^module\."),
    Cause(
        "prefix-extra", "D", 5,
        "Every name in the file has `{prefix}` before what the program looks for: the model was an attribute of "
        "another when it was saved.",
        "Export it; `check` says whether the prefix belongs to the layout or was left by a wrapper.",
        (CHECK, SAME, HF), prefix="extra", codes=("wrapper-prefix",),
    ),
    Cause(
        "prefix-lacking", "C", 5,
        "The program looks for names that begin with `{prefix}`, and those in the file lack it: the bare inner model "
        "was saved.",
        _WRITE
        + " `check` says whether a head is stored.",
        (CHECK, HF), prefix="lacking",
    ),
    Cause(
        "shared-many", "E", 3,
        "safetensors found tensors that lie in the same memory. If it names nearly all tensors, the weights were "
        "placeholders or slices of a partitioned model.",
        "Gather the weights before saving, or open the folder of the training run here: its parts are put together.",
        (CHECK, HF),
        found(r"Some tensors share memory.{0,400}?\[\{(?:[\"'][\w.\-]{1,200}[\"'],? ?){4}"),
        codes=("partitioned-state",),
    ),
    Cause(
        "buffer", "C", 4,
        "`{key}` is a computed buffer, not a weight: one release stores it, another works it out. Nothing is lost.",
        "Export it; such buffers are checked and left out.",
        (CHECK, HF), unexpected=_BUFFER, few=True, codes=("computed-buffer",),
    ),
    Cause(
        "buffer-tune", "C", 3,
        "`{key}` is a computed buffer that the converter has no rule for. Nothing is lost without it.",
        "Export it; such buffers are checked and left out.",
        (CHECK, HF, to("torchtune")), named=_BUFFER, few=True, codes=("computed-buffer",),
    ),
    Cause(
        "buffer-missing", "C", 4,
        "The program wants the computed buffer `{key}` from the file: it is of an older release than the file.",
        "Update the program. No weight is missing.",
        (CHECK,), missing=_BUFFER, few=True,
    ),
    Cause(
        "experts", "C", 4,
        "One side has a tensor for each expert, the other all experts in one: `{key}`. They are the same weights.",
        "Export it to the layout that the program reads; transformers 5 reads both.",
        (CHECK, HF), missing=_key(r"\.experts\."), unexpected=_key(r"\.experts\."),
    ),
    Cause(
        "wants-meta", "C", 3,
        "The program looks for Meta's names, such as `{key}`, and the file has others.",
        _WRITE,
        (CHECK, to("meta")), missing=_META, unexpected=_OTHER,
    ),
    Cause(
        "wants-torchtune", "C", 3,
        "The program looks for torchtune's names, and the file has others, such as `{key}`.",
        _WRITE,
        (CHECK, to("torchtune")), missing=_TUNE, unexpected=_OTHER,
    ),
    Cause(
        "wants-hf", "C", 3,
        "The program looks for Hugging Face's names, such as `{key}`, and the file has others.",
        _WRITE,
        (CHECK, HF), missing=_HUB, unexpected=_OTHER,
    ),
    Cause(
        "wants-litgpt", "C", 3,
        "The program looks for litgpt's names, such as `{key}`, and the file has others.",
        _WRITE,
        (CHECK, to("litgpt")), missing=_LITGPT, unexpected=_OTHER,
    ),
    Cause(
        "meta-given", "C", 3,
        "The file has Meta's names, such as `{key}`, and the converter reads Hugging Face's.",
        "Export it to Hugging Face's layout, or use the program's checkpointer for Meta's files.",
        (CHECK, HF, to("torchtune")),
        found(
            (
                r"Found unexpected key: \"(?P<key>[\w.]{0,200}(?:tok_embeddings|attention\.w[qkvo]|"
                r"feed_forward)[\w.]{0,200})\""
            ),
        ),
    ),
    Cause(
        "torchtune-unknown", "C", 2,
        "torchtune's converter has no name for `{key}`: the checkpoint is of another layout or family than its "
        "checkpointer reads, or has a tensor more.",
        _WRITE,
        (CHECK, to("torchtune"), HF),
        found(r"Found unexpected key: \"(?P<key>[^\"]{1,300})\""),
        codes=("unexpected-tensor", "wrapper-prefix"),
    ),
    Cause(
        "torchtune-index", "C", 4,
        "torchtune's converter can take one number in a name, and this one has two, as those of experts.",
        "Export it to torchtune's layout here.",
        (CHECK, to("torchtune")),
        found(r"Replacement index \d{1,3} out of range for positional args tuple"),
    ),
    Cause(
        "inner-model", "C", 3,
        "The converter does not know `{key}`: the name lacks `model.` before it, so the bare inner model was saved.",
        _WRITE,
        (CHECK, HF),
        found(
            (
                r"Can ?not map tensor [\"'](?P<key>(?:embed_tokens|layers\.\d{1,4}\.self_attn|"
                r"layers\.\d{1,4}\.mlp)[\w.]{0,200})[\"']"
            ),
        ),
    ),
    Cause(
        "no-map", "C", 2,
        "The converter has no name for `{key}`: a name of another layout, a wrapper's, or a tensor more than the "
        "architecture has.",
        "`check` says what the name belongs to; the export has the names that converters know.",
        (CHECK, HF),
        found(
            r"Can ?not map tensor [\"'](?P<key>[^\"']{1,300})[\"']",
            r"parameters? not in model: ?(?P<key>[\w.\-]{1,300})",
        ),
        codes=("unexpected-tensor", "wrapper-prefix"),
    ),
    Cause(
        "corrupt-dict", "C", 3,
        "The names lack the `model.` that transformers 4 looks for, beside a head: it takes the state dict for "
        "corrupt, and it is not.",
        _WRITE,
        (CHECK, HF),
        found(r"state dictionary of the model you are trying to load is corrupted"),
    ),
    Cause(
        "no-weights-file", "C", 3,
        "transformers finds no weights under a file name that it knows: the file has another name, the index is "
        "absent, or the folder is the wrong one.",
        "Export it: file names, index and config are written as transformers looks for them.",
        (CHECK, HF),
        found(r"no file named (?:pytorch_model\.bin|model\.safetensors)"),
        codes=("index-missing",),
    ),
    Cause(
        "consolidated", "C", 4,
        "The program looks for `{file}`, which is not there: Meta's releases number their files, as in "
        "`consolidated.00.pth`.",
        "Open the folder here, and export it under the names that the program reads.",
        (CHECK, to("meta"), HF),
        found(
            (
                r"No such file or directory:? ?[\"']?[^\"'\n]{0,300}?(?P<file>consolidated[\w.]{0,30}\.(?:"
                r"pth|safetensors))"
            ),
        ),
    ),
    Cause(
        "config-other", "C", 3,
        "The config has no `{key}`: it is of another release or kind of model (an older one, or an image model whose "
        "text part is nested).",
        "Give the right config.json; here nested configs and old ones are read.",
        (CONFIG, HF),
        found(
            (
                r"KeyError: [\"'](?P<key>num_attention_heads|num_key_value_heads|hidden_size|model_type|"
                r"rope_theta|head_dim|vocab_size)[\"']"
            ),
            r"object has no attribute [\"'](?P<key>num_attention_heads|num_key_value_heads|hidden_size)[\"']",
        ),
        codes=("config-missing", "config-mismatch"),
    ),
    Cause(
        "model-type", "C", 3,
        "The config does not say what model it is, or the program is older than the model.",
        "Give the right config.json, or update the program.",
        (CONFIG, HF),
        found(
            r"Should have a `?model_type`? key in its config",
            r"does not recognize this architecture",
            r"unknown model architecture",
            r"architecture [\"']?\w{1,80}[\"']? (?:is )?not supported",
        ),
        codes=("config-missing",),
    ),
    Cause(
        "one-file", "C", 3,
        "torchtune's checkpointer takes one file, and {count} were given.",
        "Export it to torchtune's layout as one file.",
        (to("torchtune", "--max-shard-size", "10TB"),),
        found(r"only support reading from a single (?:TorchTune )?checkpoint file\. Got (?P<count>\d{1,6})"),
    ),
    Cause(
        "tensor-keyerror", "C", 1,
        "The program asks for `{key}` and the file has no such name: other layout, other release, or a tensor that "
        "it does not know.",
        _WRITE,
        (CHECK, HF),
        found(r"KeyError: [\"'](?P<key>[\w{}]{1,80}(?:\.[\w{}]{1,80}){1,12})[\"']"),
        codes=("missing-tensor", "unexpected-tensor"),
    ),
    Cause(
        "nested", "N", 5,
        "The loader was handed the whole file, and the weights are one level down, beside `{key}`.",
        "Take the inner dict, or export the file: the section with the weights is found.",
        (CHECK, HF, SAME),
        unexpected=_key(
            r"^(?:model|optimizer|state_dict|model_state_dict|optimizer_state_dict|optimizer_states|epoch|"
            r"scheduler|iter_num|iteration|model_args|module|global_step|state_dict_ema|hyper_parameters|"
            r"opt_g|weight|config|loss)$"
        ),
    ),
    Cause(
        "nested-type", "N", 4,
        "The loader expects tensors and found a dict: the weights are one level down in the file.",
        "Export the file: the section with the weights is found.",
        (CHECK, HF, SAME),
        found(
            r"Expected all values in the state dict to be torch\.Tensor",
            r"'(?:dict|collections\.OrderedDict|OrderedDict)' object has no attribute 'is_floating_point'",
        ),
    ),
    Cause(
        "section-absent", "N", 3,
        "The program looks for a section `{key}` and the file has none: its weights stand at the top, or under "
        "another name.",
        "`check` says where the weights are; export it for the program.",
        (CHECK, SAME, Step("check", ("--section", "NAME"))),
        found(
            r"KeyError: [\"'](?P<key>state_dict|model|model_state_dict|module|params|model_ema|ema|generator|net)[\"']",
        ),
    ),
    Cause(
        "lists-unlike", "C", 0,
        "Names that the program wants are not in the file: another layout, another release, or a part that is lost.",
        "`check` says what layout the file has and what is missing in it.",
        (CHECK, HF), missing=_OTHER, codes=("missing-tensor",),
    ),
    Cause(
        "list-extra", "C", 0,
        "The file holds names that the program does not know, such as `{key}`: another layout, another release, or a "
        "tensor more.",
        "`check` says what each of them is.",
        (CHECK, HF), unexpected=_OTHER, codes=("unexpected-tensor",),
    ),
)  # fmt: skip
