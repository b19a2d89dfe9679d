"""Messages about writing, element types and quantisation (kinds G, L, M).

Texts of safetensors 0.8, torch 2.13, transformers, torchtune and llama.cpp's converter.
"""

from __future__ import annotations

import re

from ckpt_gui.core.explain.cause import CHECK, HF, SAME, Cause, found, to

_QUANT = (
    r"(?:SCB|qweight|qzeros|g_idx|weight_scale_inv|weight_scale|input_scale|absmax|quant_map|"
    r"quant_state\.\w{1,60}|_scale|scales|weight_format|quant_weight|_blocks|_scales)"
)
_FULL = (
    "Use the model as it was before it was quantised, or the program that reads this scheme; `check` "
    "names the scheme. FP8 with block scales is decoded by the export."
)

WRITING: tuple[Cause, ...] = (
    Cause(
        "quantised-global", "M", 4,
        "The pickle holds quantised tensors of `{name}`; a loader without that library refuses them.",
        _FULL,
        (CHECK,),
        found(
            (
                r"Unsupported global: GLOBAL (?P<name>(?:torchao|bitsandbytes|auto_gptq|quanto|"
                r"optimum\.quanto|torchtune\.modules\.low_precision)[\w.]{0,200})"
            ),
        ),
        codes=("quantised",),
    ),
    Cause(
        "no-format", "G", 4,
        "The safetensors file does not say `format: pt` in its metadata, and the program insists on it. The tensors "
        "are fine.",
        "Write it anew; the export says so.",
        (CHECK, SAME, HF),
        found(
            r"'NoneType' object has no attribute 'get'",
            r"File metadata is not \['pt'",
            r"does not contain the valid metadata",
            r"checkpoint passed was saved with \w{1,40}, we need a",
        ),
    ),
    Cause(
        "metadata-text", "G", 5,
        "A value in the metadata is no text: safetensors takes text for every one of them.",
        "Turn the values into text (`str()` or JSON) before saving. A file that has such a header is shown by "
        "`check`.",
        (CHECK, SAME),
        found(
            r"cannot be converted to 'PyString'",
            r"object is not an instance of 'str'",
            r"invalid JSON in header: invalid type: [^,]{1,100}, expected a string",
        ),
    ),
    Cause(
        "not-contiguous", "G", 4,
        "The tensor `{key}` is a view with gaps, such as a transposed or sliced one, and safetensors writes whole "
        "ones only.",
        "Call `.contiguous()` on it, or save with torch and export the file here.",
        (CHECK, HF),
        found(r"save a non contiguous tensor: `?(?P<key>[^` ]{1,300})"),
    ),
    Cause(
        "not-a-tensor", "G", 4,
        "`{key}` is no dense tensor, and safetensors stores nothing else.",
        "Leave it out or make it dense; the export of a torch file lists such entries and leaves them out.",
        (CHECK, HF),
        found(
            r"Key `?(?P<key>[^` ]{1,300})`? is invalid, expected torch\.Tensor",
            r"save a sparse tensors?: `?\[?'?(?P<key>[^`'\]]{1,300})",
        ),
    ),
    Cause(
        "mapped-target", "G", 4,
        "The program wrote over the file that it was reading; the source may be damaged now.",
        "Write to another place. The export never writes over a source.",
        (CHECK, SAME),
        found(r"code: 1224", r"Bad address \(os error 14\)", r"user-mapped section open"),
    ),
    Cause(
        "map-memory", "G", 4,
        "The system cannot map {bytes} bytes at once.",
        "Close other programs, or cut the file into shards; here it is read in small pieces.",
        (to("same", "--max-shard-size", "5GB"),),
        found(r"unable to mmap (?P<bytes>\d{1,20}) bytes"),
    ),
    Cause(
        "disk-full", "G", 4,
        "The disk was full or refused to be written: what was written is no whole file.",
        "Make room and save again; `check` says how much of the file is there.",
        (CHECK,),
        found(
            r"No space left on device",
            r"PytorchStreamWriter failed writing file",
            r"unexpected pos \d{1,20} vs \d{1,20}",
        ),
    ),
    Cause(
        "unknown-dtype", "L", 4,
        "The file has the element type `{dtype}`, which this release of safetensors does not know, or that does not "
        "exist.",
        "Update safetensors, or export with another element type.",
        (CHECK, to("same", "--dtype", "bf16")),
        found(r"invalid JSON in header: unknown variant `(?P<dtype>[^`]{0,60})`"),
    ),
    Cause(
        "no-bfloat16", "L", 4,
        "numpy has no `{dtype}`, and the program goes through numpy.",
        "Export with `--dtype fp32` for such a program; the file is fine.",
        (to("same", "--dtype", "fp32"),),
        found(
            r"Got unsupported ScalarType (?P<dtype>\w{1,40})",
            r"data type [\"'](?P<dtype>bfloat16|float8\w{0,20})[\"'] not understood",
        ),
    ),
    Cause(
        "mixed-dtypes", "L", 3,
        "Weights and inputs have different element types: the file mixes them, or the model was loaded in another.",
        "`check` counts the types; export with one of them.",
        (CHECK, to("same", "--dtype", "bf16")),
        found(
            r"expected (?:m1 and m2|mat1 and mat2|scalar type \w{1,20} but found) ?",
            r"not implemented for '(?:Half|BFloat16|Float8_\w{1,20})'",
        ),
        codes=("dtype-mixed",),
    ),
    Cause(
        "quantised-name", "M", 5,
        "`{key}` belongs to a quantised weight: the codes are not numbers of the model, and renaming does not help.",
        _FULL,
        (CHECK, HF), named=re.compile(r"(?:^|[._])" + _QUANT + r"$"), codes=("quantised",),
    ),
    Cause(
        "quantised-use", "M", 4,
        "The checkpoint is quantised in a way that this step cannot take.",
        _FULL,
        (CHECK,),
        found(
            r"Quantization is only supported for models quantized and saved with",
            r"is quantized with .{1,100} and is not serializable",
            r"Quant method is not yet supported",
            r"quantization only supports 16/32-bit floats",
            r"Unknown quantization type",
        ),
        codes=("quantised",),
    ),
)  # fmt: skip
