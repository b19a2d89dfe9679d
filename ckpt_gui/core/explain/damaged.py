"""Messages about files that are damaged, cut short, or no checkpoints at all (kind A).

Texts as printed by torch 2.13 and safetensors 0.8 (and the names that safetensors gave its errors before), triggered
with made files; those of other programs are from their sources and from reports of users.
"""

from __future__ import annotations

from ckpt_gui.core.explain.cause import CHECK, DEEP, PULL, SALVAGE, SAME, Cause, found

_AGAIN = "Fetch the file again and compare its size with the one published; `check` says how many bytes are there."
_LOOK = "`check` looks at the content, not at the name, and says what the file is."
DAMAGED: tuple[Cause, ...] = (
    Cause(
        "zip-cut", "A", 4,
        "The file begins as a torch archive, but its end is absent: the download stopped early, the disk was full, "
        "or it is still being copied. One absent byte is enough.",
        _AGAIN
        + " What is whole can be written apart.",
        (CHECK, SALVAGE),
        found(r"failed finding central directory", r"File is not a zip file"),
        codes=("truncated",),
    ),
    Cause(
        "zip-record", "A", 4,
        "The record `{record}` of the torch archive is damaged; the rest may be whole.",
        "Fetch the file again; `check --deep` compares every checksum and names the tensors. What is whole can be "
        "written apart.",
        (DEEP, SALVAGE),
        found(r"failed reading file (?P<record>[\w./\-]{1,100}): "),
        codes=("damaged", "truncated"),
    ),
    Cause(
        "record-lost", "A", 4,
        "The record `{record}` is not in the torch archive: it was packed again, or only in part.",
        "Take the file as it was saved; `check` says what is there.",
        (CHECK, SALVAGE),
        found(r"failed locating file (?P<record>(?!constants)[\w./\-]{1,100}): file not found"),
    ),
    Cause(
        "corrupted", "A", 1,
        "torch takes the file for damaged: badly saved, badly copied, or changed afterwards.",
        _AGAIN,
        (DEEP,),
        found(
            r"high likelihood that your checkpoint file is corrupted",
            r"Unable to load weights from pytorch checkpoint file",
            r"invalid header or archive is corrupted",
        ),
    ),
    Cause(
        "lfs-pointer", "A", 5,
        "The file begins with `v`: it is most likely a Git LFS pointer, a short text in place of the weights. The "
        "clone was made without Git LFS.",
        "Run `git lfs pull` in the clone, or download the file itself.",
        (PULL, CHECK),
        found(r"invalid load key, 'v'", r"Unsupported operand 118\b"),
        codes=("lfs-pointer",),
    ),
    Cause(
        "lfs-text", "A", 5,
        "This is the text of a Git LFS pointer: the real file has {bytes} bytes, and is not here.",
        "Run `git lfs pull` in the clone, or download the file itself.",
        (PULL, CHECK),
        found(r"version https://git-lfs\.github\.com/spec/v1 oid sha256:[0-9a-f]{64} size (?P<bytes>\d{1,20})"),
        codes=("lfs-pointer",),
    ),
    Cause(
        "html-page", "A", 5,
        "The file begins with `<`: it is a web page, such as a page that asks to log in, saved under the file's name.",
        "Download the file itself: log in or accept the licence first. `check` shows what it is.",
        (CHECK,),
        found(r"invalid load key, '<'", r"Unsupported operand 60\b"),
        codes=("not-a-checkpoint",),
    ),
    Cause(
        "gzip", "A", 5,
        "The file is packed with gzip.",
        "Unpack it with `gunzip`, or with `tar -xzf` if it is a tar.",
        (CHECK,),
        found(r"invalid load key, '\\x1f'", r"Unsupported operand 31\b"),
        codes=("not-a-checkpoint",),
    ),
    Cause(
        "not-a-pickle", "A", 3,
        "The file is no pickle of torch: its first byte is `{byte}`. Most often it is a safetensors file under a "
        "torch name (that byte is then the low byte of its header's length); it may also be damaged.",
        _LOOK
        + " A safetensors file opens here under any name, and is written under the right one.",
        (CHECK, SAME),
        found(
            r"invalid load key, '(?P<byte>\\x(?!1f)[0-9a-f]{2}|[^v<\\'])'",
            r"Unsupported operand (?P<byte>(?!118\b|60\b|31\b)\d{1,3})\b",
        ),
    ),
    Cause(
        "all-zero", "A", 2,
        "A file of zeros only gives the same message: space was set aside for a download that never filled it.",
        _AGAIN,
        (CHECK,),
        found(r"legacy \.tar format", r"filename 'storages' not found"),
        codes=("zero-filled",),
    ),
    Cause(
        "empty", "A", 3,
        "The file is empty, or ends before the first object does.",
        _AGAIN,
        (CHECK,),
        found(r"\bEOFError:?(?: Ran out| ?$| During| The above)"),
        codes=("empty-file",),
    ),
    Cause(
        "stream-cut", "A", 4,
        "The file is a torch file of the old kind and is cut short: a tensor needs {bytes} bytes more.",
        _AGAIN,
        (CHECK, SALVAGE),
        found(r"unexpected EOF, expected (?P<bytes>\d{1,20}) more bytes"),
        codes=("truncated",),
    ),
    Cause(
        "header-large", "A", 4,
        "The file is no safetensors file, whatever its name: most often a Git LFS pointer, else a web page or a "
        "torch file with the ending `.safetensors`.",
        _LOOK
        + " For a pointer, run `git lfs pull`; a torch file opens here as it is.",
        (CHECK, PULL),
        found(r"HeaderTooLarge", r"header too large"),
        codes=("lfs-pointer", "not-a-checkpoint"),
    ),
    Cause(
        "header-cut", "A", 4,
        "The safetensors file ends within its header: it is cut short, or no safetensors file.",
        _AGAIN,
        (CHECK,),
        found(r"InvalidHeaderLength", r"invalid header length"),
        codes=("truncated",),
    ),
    Cause(
        "header-small", "A", 4,
        "The file is empty or has fewer than 8 bytes: nothing was downloaded.",
        _AGAIN,
        (CHECK,),
        found(r"HeaderTooSmall", r"header too small"),
        codes=("empty-file", "truncated"),
    ),
    Cause(
        "data-cut", "A", 4,
        "The header of the safetensors file is whole, and its data have another length than it says: cut short most "
        "often, or bytes hang on at the end.",
        _AGAIN
        + " Whole tensors can be written apart.",
        (CHECK, SALVAGE),
        found(r"MetadataIncompleteBuffer", r"incomplete metadata, file not fully covered"),
        codes=("truncated", "damaged"),
    ),
    Cause(
        "bad-offset", "A", 4,
        "The header gives the tensor `{key}` a place that cannot be right: it is declared twice, overlaps another, "
        "or leaves a gap.",
        "The file was written wrongly; `check` says which bytes. Write or fetch it anew.",
        (CHECK,),
        found(r"InvalidOffset\([\"'`]?(?P<key>[^\"'`)]{1,300})", r"invalid offset for tensor `(?P<key>[^`]{1,300})`"),
        codes=("damaged",),
    ),
    Cause(
        "bad-range", "A", 4,
        "A tensor's shape and element type do not fit the bytes that the header gives it.",
        "The file was written wrongly, or by hand. `check` names the tensor; take nothing from it unseen.",
        (CHECK,),
        found(
            r"TensorInvalidInfo",
            r"invalid shape, data type, or offset for tensor",
            r"ValidationOverflow",
            r"overflow computing buffer size",
        ),
    ),
    Cause(
        "bad-header", "A", 3,
        "The header of the safetensors file is no valid JSON: zeros, damage, or an old writer.",
        _LOOK,
        (CHECK,),
        found(
            r"InvalidHeaderDeserialization",
            r"invalid JSON in header",
            r"InvalidHeaderStart",
            r"invalid start character in header",
            r"invalid UTF-8 in header",
            r"InvalidHeader\b",
        ),
    ),
    Cause(
        "size-wrong", "A", 4,
        "The download has {have} bytes and should have {want}.",
        "Delete the file and download it again.",
        (CHECK,),
        found(r"file should be of size (?P<want>\d{1,20}) but has size (?P<have>\d{1,20})"),
    ),
    Cause(
        "gguf-damaged", "A", 4,
        "The file is no GGUF file, or is cut short.",
        _AGAIN,
        (CHECK,),
        found(
            r"GGUF magic invalid",
            r"invalid magic characters",
            r"not within the file bounds, model is corrupted or incomplete",
        ),
    ),
    Cause(
        "header-remote", "I", 3,
        "A header was read over the network and came incomplete; the file itself may be whole.",
        "Update huggingface_hub, or download the file and open it here.",
        (CHECK,),
        found(r"header is not json-encoded string", r"SafetensorsParsingError"),
    ),
)  # fmt: skip
