"""Messages about how a file is loaded: pickles, old containers, load options (kind F).

No step here turns `weights_only` off: a pickle runs code when it is loaded so.
"""

from __future__ import annotations

from ckpt_gui.core.explain.cause import CHECK, HF, SAME, Cause, found, to

_SAFE = (
    "Nothing of the pickle is run here: the tensors are read, and the export is plain safetensors. Do "
    "not turn `weights_only` off for a file from a stranger."
)
LOADING: tuple[Cause, ...] = (
    Cause(
        "foreign-global", "F", 3,
        "The pickle names `{name}`, which is no tensor: settings, a whole model or a count of a training run beside "
        "the weights.",
        _SAFE,
        (CHECK, HF, SAME),
        found(r"Unsupported (?:global|class): ?(?:GLOBAL )?(?P<name>(?!torch\.distributed)[\w.]{1,200})"),
        codes=("foreign-object", "unsafe-pickle"),
    ),
    Cause(
        "weights-only", "F", 1,
        "torch refuses the file with `weights_only=True`: it holds more than tensors, or is no torch file.",
        _SAFE,
        (CHECK, HF),
        found(r"Weights only load failed"),
        codes=("foreign-object", "unsafe-pickle"),
    ),
    Cause(
        "torch-too-old", "F", 4,
        "transformers loads no pickle with a torch before 2.6, whose safe loader has a hole.",
        "Update torch, or write the file as safetensors, which needs no pickle.",
        (HF, to("same", "--format", "safetensors")),
        found(r"serious vulnerability issue in `?torch\.load", r"require users to upgrade torch to at least v2\.6"),
    ),
    Cause(
        "legacy-tar", "F", 3,
        "The file is a torch file of before 2017, a tar, which torch reads with `weights_only=False` only.",
        _SAFE,
        (CHECK, SAME),
        found(r"legacy \.tar format"),
    ),
    Cause(
        "no-mmap", "F", 4,
        "The file is a torch file of before 1.6, or no torch file at all; such a one cannot be mapped.",
        "Write it anew: the export is a file that can be mapped.",
        (CHECK, SAME, HF),
        found(r"mmap can only be used with files saved with"),
    ),
    Cause(
        "flat-zip", "F", 4,
        "The archive was packed again without its top folder.",
        "Take the file as it was saved, or export it: the records are found here all the same.",
        (CHECK, SAME),
        found(r"file in archive is not in a subdirectory"),
    ),
    Cause(
        "not-torchscript", "F", 5,
        "The program takes the file for TorchScript, and it is a plain checkpoint: it has no code in it.",
        "Load it with `torch.load`, or export it.",
        (CHECK, HF),
        found(r"failed locating file constants\.pkl", r"failed locating file constants\.pkl: file not found"),
    ),
    Cause(
        "cuda-only", "F", 5,
        "The file was saved from a graphics card, and here is none; the weights are fine.",
        "Load with `map_location=\"cpu\"`, or export it: tensors are written without a device.",
        (CHECK, SAME, HF),
        found(r"Attempting to deserialize object on (?:a )?(?:CUDA|cuda|MPS|HPU)"),
    ),
    Cause(
        "class-absent", "F", 3,
        "The pickle holds an object of `{name}`, code that is not installed here.",
        _SAFE,
        (CHECK, HF),
        found(
            r"Can't get attribute '(?P<name>[\w.]{1,200})' on <module",
            (
                r"ModuleNotFoundError: No module named '(?P<name>models|utils|ultralytics|"
                r"pytorch_lightning|omegaconf|megatron[\w.]{0,100})'"
            ),
        ),
        codes=("foreign-object",),
    ),
    Cause(
        "pickle-protocol", "F", 3,
        "The file needs a newer Python or torch than the program's: protocol or version {version}.",
        "Update it, or export the file.",
        (CHECK, SAME),
        found(
            r"unsupported pickle protocol: (?P<version>\d{1,3})",
            r"Attempted to read a PyTorch file with version (?P<version>\d{1,5})",
        ),
    ),
    Cause(
        "dict-not-model", "F", 3,
        "The file holds a state dict, that is names and tensors, and the program took it for a model: `{name}` is a "
        "model's.",
        "Make the model first and call `load_state_dict`; the file is as it should be.",
        (CHECK, HF),
        found(
            (
                r"'(?:dict|OrderedDict|collections\.OrderedDict)' object has no attribute '(?P<name>eval|"
                r"load_state_dict|to|cuda|parameters|state_dict|train|half|forward)'"
            ),
            r"'(?:dict|OrderedDict|collections\.OrderedDict)' object is not (?P<name>callable)",
        ),
    ),
)  # fmt: skip
