"""Messages as programs print them, each with the cause that it must lead to first."""

from __future__ import annotations

_ST = "safetensors_rust.SafetensorError: Error while deserializing header: "
_PS = "RuntimeError: PytorchStreamReader failed "
_WO = (
    "_pickle.UnpicklingError: Weights only load failed. Re-running `torch.load` with `weights_only` set "
    "to `False` will likely succeed. "
)
_LSD = "RuntimeError: Error(s) in loading state_dict for Transformer:\n\t"
_TUNE = (
    'Exception: Error converting the state dict. Found unexpected key: "{}". Please make sure you\'re '
    "loading a checkpoint with the right format. "
)


def _lists(missing: str = "", unexpected: str = "") -> str:
    parts = [("Missing", missing), ("Unexpected", unexpected)]
    return _LSD + "\n\t".join(
        f"{word} key(s) in state_dict: " + ", ".join(f'"{key}"' for key in keys.split()) + ". "
        for word, keys in parts
        if keys
    )


def _size(key: str, have: str, want: str) -> str:
    return (
        f"{_LSD}size mismatch for {key}: copying a param with shape torch.Size([{have}]) from checkpoint, "
        f"the shape in current model is torch.Size([{want}])."
    )


MESSAGES: tuple[tuple[str, str], ...] = (
    ("zip-cut", _PS + "reading zip archive: failed finding central directory. This is an internal miniz error."),
    ("zip-record", _PS + "reading file data/8: invalid header or archive is corrupted"),
    ("record-lost", _PS + "locating file data/3: file not found"),
    ("corrupted", "there is a high likelihood that your checkpoint file is corrupted."),
    ("lfs-pointer", "_pickle.UnpicklingError: invalid load key, 'v'."),
    ("lfs-pointer", _WO + "WeightsUnpickler error: \n\nUnsupported operand 118\n"),
    ("lfs-text", "version https://git-lfs.github.com/spec/v1\noid sha256:" + "ab" * 32 + "\nsize 19332096\n"),
    ("html-page", "_pickle.UnpicklingError: invalid load key, '<'."),
    ("gzip", "_pickle.UnpicklingError: invalid load key, '\\x1f'."),
    ("not-a-pickle", "_pickle.UnpicklingError: invalid load key, '&'."),
    ("not-a-pickle", _WO + "Unsupported operand 26"),
    ("all-zero", "KeyError: \"filename 'storages' not found\""),
    ("empty", "EOFError: Ran out of input"),
    ("empty", "Traceback (most recent call last):\n  File \"a.py\", line 1\nEOFError"),
    ("stream-cut", "RuntimeError: unexpected EOF, expected 180 more bytes. The file might be corrupted."),
    ("header-large", _ST + "HeaderTooLarge"),
    ("header-cut", _ST + "InvalidHeaderLength"),
    ("header-small", _ST + "HeaderTooSmall"),
    ("data-cut", _ST + "MetadataIncompleteBuffer"),
    ("bad-offset", _ST + 'InvalidOffset("key00")'),
    ("bad-range", _ST + "TensorInvalidInfo"),
    ("bad-header", _ST + "InvalidHeaderDeserialization"),
    ("size-wrong", "OSError: Consistency check failed: file should be of size 4976698672 but has size 1073741824 (x)."),
    ("gguf-damaged",
     "llama_model_load: error loading model: tensor 'blk.9.ffn_up.weight' data is not within the file "
     "bounds, model is corrupted or incomplete"),
    ("header-remote", "huggingface_hub.errors.SafetensorsParsingError: header is not json-encoded string"),
    ("head-unexpected", _lists("", "output.weight")),
    ("head-missing", _lists("lm_head.weight")),
    ("head-missing",
     "Some weights of LlamaForCausalLM were not initialized from the model checkpoint at x and are "
     "newly initialized: ['lm_head.weight']"),
    ("head-keyerror", "KeyError: 'lm_head.weight'"),
    ("head-keyerror", "ValueError: Can not map tensor 'lm_head.weight'"),
    ("head-keyerror", "ValueError: Received 1 parameters not in model: \nlm_head.weight."),
    ("head-keyerror", "SafetensorError: File does not contain tensor lm_head.weight"),
    ("head-keyerror", "AssertionError: mismatch keys {'base_model.model.lm_head.weight'}"),
    ("shared",
     "RuntimeError: Some tensors share memory, this will lead to duplicate memory on disk: "
     "[{'lm_head.weight', 'model.embed_tokens.weight'}]."),
    ("shared",
     "RuntimeError: The weights trying to be saved contained shared tensors [{'a', 'b'}] that are "
     "mismatching the transformers base configuration."),
    ("shared-many",
     "RuntimeError: Some tensors share memory, this will lead to duplicate memory on disk: [{'a.w', "
     "'b.w', 'c.w', 'd.w', 'e.w'}]."),
    ("tied-conflict",
     "The tied weights mapping specifies to tie a to b, but both are present in the checkpoints with "
     "different values, so we will NOT tie them."),
    ("prefix-orig_mod", _lists("tok_emb.weight pos_emb.weight", "_orig_mod.tok_emb.weight _orig_mod.pos_emb.weight")),
    ("prefix-orig_mod", _TUNE.format("_orig_mod.tok_embeddings.weight")),
    ("prefix-checkpoint_wrapped_module",
     _lists("layers.0.attn.wq.weight", "layers.0._checkpoint_wrapped_module.attn.wq.weight")),
    ("prefix-fsdp_wrapped_module", _lists("fc.weight", "_fsdp_wrapped_module.fc.weight")),
    ("prefix-forward_module", _lists("fc.weight", "_forward_module.fc.weight")),
    ("prefix-module", _lists("fc.weight fc.bias", "module.fc.weight module.fc.bias")),
    ("prefix-extra", _lists("layers.0.wq.weight", "model.layers.0.wq.weight")),
    ("prefix-lacking",
     _lists(
         "model.layers.0.self_attn.q_proj.weight model.norm.weight",
         "layers.0.self_attn.q_proj.weight norm.weight")),
    ("buffer", _lists("", "embeddings.position_ids")),
    ("buffer", _lists("", "rope.freqs")),
    ("buffer-tune", _TUNE.format("model.layers.0.self_attn.rotary_emb.inv_freq")),
    ("buffer-missing", _lists("gpt_neox.layers.0.attention.rotary_emb.inv_freq")),
    ("experts", _lists("model.layers.0.mlp.experts.gate_up_proj", "model.layers.0.mlp.experts.0.gate_proj.weight")),
    ("wants-meta",
     _lists(
         "tok_embeddings.weight layers.0.attention.wq.weight",
         "model.embed_tokens.weight model.norm.weight")),
    ("wants-torchtune",
     _lists(
         "layers.0.attn.q_proj.weight layers.0.sa_norm.scale",
         "layers.0.attention.wq.weight layers.0.attention_norm.weight")),
    ("wants-hf", _lists("model.layers.0.self_attn.q_proj.weight", "layers.0.attention.wq.weight")),
    ("wants-litgpt", _lists("transformer.h.0.attn.qkv.weight", "model.layers.0.self_attn.q_proj.weight")),
    ("meta-given", _TUNE.format("tok_embeddings.weight")),
    ("torchtune-unknown", _TUNE.format("model.layers.0.self_attn.q_proj.bias")),
    ("torchtune-index", "IndexError: Replacement index 1 out of range for positional args tuple"),
    ("inner-model", "ValueError: Can not map tensor 'embed_tokens.weight'"),
    ("no-map", "ValueError: Can not map tensor 'model.layers.0.foo.weight'"),
    ("no-map", "ValueError: Received 2 parameters not in model: \nmodel.extra.weight,\nmodel.other.weight."),
    ("corrupt-dict",
     "ValueError: The state dictionary of the model you are trying to load is corrupted. Are you sure "
     "it was properly saved?"),
    ("no-weights-file",
     "OSError: Error no file named pytorch_model.bin, model.safetensors, tf_model.h5 found in directory "
     "/m."),
    ("consolidated", "FileNotFoundError: [Errno 2] No such file or directory: '/m/Llama3.2-1B/consolidated.pth'"),
    ("config-other", "KeyError: 'num_key_value_heads'"),
    ("model-type", "ValueError: Unrecognized model in /m. Should have a `model_type` key in its config.json"),
    ("one-file",
     "ValueError: Currently we only support reading from a single TorchTune checkpoint file. Got 4 "
     "files instead."),
    ("tensor-keyerror", "KeyError: 'vision_model.vision_encoder.class_embedding'"),
    ("tensor-keyerror", "KeyError: 'layers.{}.attn.q_proj.magnitude'"),
    ("nested", _lists("backbone.conv.weight", "model optimizer scheduler iteration")),
    ("nested-type",
     "ValueError: Expected all values in the state dict to be torch.Tensor. Found <class 'dict'> "
     "instead."),
    ("nested-type", "AttributeError: 'dict' object has no attribute 'is_floating_point'"),
    ("section-absent", "KeyError: 'state_dict'"),
    ("lists-unlike", _lists("foo.weight bar.weight baz.weight qux.weight quux.weight")),
    ("list-extra", _lists("", "foo.bias")),
    ("placeholder", _size("model.layers.0.mlp.up_proj.weight", "0", "2560, 2560")),
    ("placeholder", _size("base_model.model.layers.0.q_proj.lora_B.default.weight", "0", "64, 8")),
    ("placeholder-old", _size("model.norm.weight", "1", "2560")),
    ("live-placeholder", _size("bert.embeddings.word_embeddings.weight", "30522, 768", "0")),
    ("flat-slice", _size("model.embed_tokens.weight", "65667584", "128256, 2048")),
    ("flat-param",
     _lists("a.weight", "student.backbone._fsdp_wrapped_module.blocks.0._fsdp_wrapped_module._flat_param")),
    ("model-parallel", "AssertionError: Loading a checkpoint for MP=8 but world size is 2"),
    ("dcp-metadata", "FileNotFoundError: [Errno 2] No such file or directory: 'checkpoint-2000/.metadata'"),
    ("zero-files", "ValueError: Unable to find 'latest' file at /run/latest"),
    ("zero-files", "ValueError: Expected 8 of '*_optim_states.pt' under '/run/step' but found 4 files."),
    ("dtensor",
     "RuntimeError: aten.mm.default: got mixed torch.Tensor and DTensor, need to convert all "
     "torch.Tensor to DTensor"),
    ("meta-tensor", "NotImplementedError: Cannot copy out of meta tensor; no data!"),
    ("weight-2d", "RuntimeError: 'weight' must be 2-D"),
    ("adapter-keys",
     "UserWarning: Found missing adapter keys while loading the checkpoint: "
     "['base_model.model.x.lora_A.default.weight']."),
    ("adapter-size",
     _size("base_model.model.model.layers.0.self_attn.q_proj.lora_A.default.weight", "8, 4096", "16, 4096")),
    ("adapter-unmerged", _lists("", "model.layers.0.self_attn.q_proj.lora_A.default.weight")),
    ("adapter-refused",
     "ValueError: Checkpoints with LoRA weights cannot be converted. Call `scripts/merge_lora.py` first."),
    ("adapter-refused", "NotImplementedError: Converting adapter models is not supported."),
    ("adapter-targets",
     "ValueError: Target modules {'q_proj'} not found in the base model. Please check the target "
     "modules and try again."),
    ("adapter-config", "KeyError: 'base_model_name_or_path'"),
    ("adapter-config", "ValueError: Can't find 'adapter_config.json' at 'out'"),
    ("adapter-extracted", "RuntimeError: Extracted keys = {'lm_head.weight'} do not match!"),
    ("adapter-rank", "ValueError: LoRA rank 64 is greater than max_lora_rank 16."),
    ("shard-missing", "FileNotFoundError: No such file or directory: \"/m/model-00002-of-00004.safetensors\""),
    ("shard-missing", "OSError: x does not appear to have a file named model-00002-of-00004.safetensors"),
    ("duplicate", "ValueError: Duplicated tensor name 'blk.0.attn_q.weight'"),
    ("two-models", "KeyError: 'layers.0.attention.wk.weight'"),
    ("index-fields", "KeyError: 'metadata'"),
    ("tensor-absent", "SafetensorError: File does not contain tensor mtp.fc.weight"),
    ("tensor-absent", "ValueError: Missing tensors: ['blk.3.attn_q.weight']"),
    ("tensor-count",
     "llama_model_load: error loading model: done_getting_tensors: wrong number of tensors; expected "
     "292, got 291"),
    ("unindexed", "Shard files contain tensors absent from the index"),
    ("vocab-rows", _size("model.embed_tokens.weight", "32001, 4096", "32000, 4096")),
    ("vocab-rows", _size("output.weight", "128260, 4096", "128256, 4096")),
    ("vocab-rows-bare", _size("weight", "66, 32", "64, 32")),
    ("vocab-rows-bare",
     'ValueError: Trying to set a tensor of shape torch.Size([128256, 4096]) in "weight" (which has '
     'shape torch.Size([128003, 4096])), this looks incorrect.'),
    ("vocab-tokenizer", "Exception: Vocab size mismatch (model has 32000, but tokenizer.model has 32003)."),
    ("vocab-small", "IndexError: index out of range in self"),
    ("ignore-mismatch", "RuntimeError: You set `ignore_mismatched_sizes` to `False`, thus raising an error."),
    ("head-count", "RuntimeError: shape '[4, 2, 4, 32]' is invalid for input of size 2048"),
    ("transposed", _size("transformer.h.0.attn.c_attn.weight", "768, 2304", "2304, 768")),
    ("other-size", _size("layers.0.wq.weight", "2048, 2048", "4096, 4096")),
    ("foreign-global",
     _WO
     + "WeightsUnpickler error: Unsupported global: GLOBAL numpy.core.multiarray.scalar was not an "
     "allowed global by default."),
    ("quantised-global",
     _WO
     + "Unsupported global: GLOBAL torchao.dtypes.nf4tensor.NF4Tensor was not an allowed global by "
     "default."),
    ("dtensor",
     _WO
     + "Unsupported global: GLOBAL torch.distributed.tensor.DTensor was not an allowed global by default."),
    ("weights-only", _WO),
    ("torch-too-old",
     "ValueError: Due to a serious vulnerability issue in `torch.load`, even with `weights_only=True`, "
     "we now require users to upgrade torch to at least v2.6"),
    ("legacy-tar", "RuntimeError: Cannot use ``weights_only=True`` with files saved in the legacy .tar format."),
    ("no-mmap",
     "RuntimeError: mmap can only be used with files saved with "
     "`torch.save(_use_new_zipfile_serialization=True)`"),
    ("flat-zip",
     "RuntimeError: [enforce fail at inline_container.cc:180] . file in archive is not in a "
     "subdirectory: data.pkl"),
    ("not-torchscript",
     _PS
     + "locating file constants.pkl: file not found. there is a high likelihood that your checkpoint file "
     "is corrupted."),
    ("cuda-only",
     "RuntimeError: Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is "
     "False."),
    ("class-absent", "AttributeError: Can't get attribute 'ModelArgs' on <module '__main__' from 'a.py'>"),
    ("pickle-protocol", "ValueError: unsupported pickle protocol: 5"),
    ("dict-not-model", "AttributeError: 'collections.OrderedDict' object has no attribute 'eval'"),
    ("no-format", "AttributeError: 'NoneType' object has no attribute 'get'"),
    ("no-format",
     "ValueError: Incompatible safetensors file. File metadata is not ['pt', 'tf', 'flax', 'mlx'] but "
     "None"),
    ("metadata-text", "TypeError: argument 'metadata': 'dict' object cannot be converted to 'PyString'"),
    ("not-contiguous", "ValueError: You are trying to save a non contiguous tensor: `a` which is not allowed."),
    ("not-a-tensor", "ValueError: Key `a` is invalid, expected torch.Tensor but received <class 'int'>"),
    ("mapped-target",
     'SafetensorError: Error while serializing: IoError(Os { code: 1224, kind: Uncategorized, message: '
     '"x" })'),
    ("map-memory",
     "RuntimeError: unable to mmap 23802932552 bytes from file <m.safetensors>: Cannot allocate memory "
     "(12)"),
    ("disk-full", "RuntimeError: PytorchStreamWriter failed writing file data/3: file write failed"),
    ("unknown-dtype", _ST + "invalid JSON in header: unknown variant `X9`, expected one of `BOOL`, `F4`"),
    ("no-bfloat16", "TypeError: Got unsupported ScalarType BFloat16"),
    ("mixed-dtypes", "RuntimeError: expected mat1 and mat2 to have the same dtype, but got: float != c10::Half"),
    ("quantised-name", "ValueError: Can not map tensor 'model.layers.0.mlp.down_proj.SCB'"),
    ("quantised-name", "ValueError: Can not map tensor 'model.layers.0.self_attn.q_proj.qweight'"),
    ("quantised-name", "ValueError: Can not map tensor 'model.layers.0.mlp.up_proj.weight_scale_inv'"),
    ("quantised-name", "ValueError: Can not map tensor 'lm_head.weight._scale'"),
    ("quantised-use", "NotImplementedError: Quant method is not yet supported: 'gptq'"),
)  # fmt: skip
