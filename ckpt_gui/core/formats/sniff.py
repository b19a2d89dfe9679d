"""What a file is, by its first bytes; its name is never trusted.

Files that are no checkpoints are named for what they are: a Git LFS pointer, an HTML page where a download failed, a
GGUF file. "Unpickling error" helps nobody.
"""

from __future__ import annotations

import re
from typing import Literal

from ckpt_gui.core.errors import CheckpointError, Finding
from ckpt_gui.core.formats.file_errors import show_path
from ckpt_gui.core.formats.files import HeldFile
from ckpt_gui.core.formats.lfs import Pointer, find_object, is_pointer, parse_pointer
from ckpt_gui.core.formats.npy_header import MAGIC as NUMPY
from ckpt_gui.core.formats.pickle_files import find_unsafe, find_unsafe_objects, is_pickle, refusal
from ckpt_gui.core.formats.tar_archive import is_tar
from ckpt_gui.core.keys import safe_text

Kind = Literal["safetensors", "zip", "torch-legacy", "torch-tar", "gguf"]

HEAD = 4096
MAX_HEADER = 100_000_000
# The magic number of torch before 1.6 as a pickle of any protocol; the fourth puts a frame before it.
LEGACY = re.compile(rb"\x80[\x02-\x05](\x95.{8})?\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", re.DOTALL)
TORCH_SUFFIXES = (".pt", ".pth", ".bin", ".ckpt")
_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"lmgg", "a GGML file"),
    (b"tjgg", "a GGML file"),
    (b"fmgg", "a GGML file"),
    (b"\x89PNG\r\n\x1a\n", "a PNG picture"),
    (b"\xff\xd8\xff", "a JPEG picture"),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file"),
    (NUMPY, "a NumPy array file"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"BZh", "a bzip2 archive"),
    (b"\xfd7zXZ\x00", "an xz archive"),
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive"),
    (b"\x28\xb5\x2f\xfd", "a zstd archive"),
    (b"Rar!\x1a\x07", "a RAR archive"),
    (b"%PDF", "a PDF document"),
    (b"\x7fELF", "a program (ELF)"),
    (b"MZ", "a program (Windows)"),
    (b"PK\x05\x06", "an empty zip archive"),
    (b"PAR1", "a Parquet file"),
    (b"SQLite format 3\x00", "an SQLite database"),
)
_NAMES: dict[Kind, str] = {
    "safetensors": "a safetensors file",
    "zip": "a torch (zip) file",
    "gguf": "a GGUF file",
    "torch-legacy": "a torch file of before 1.6",
    "torch-tar": "a torch file of 2016",
}
_HTML = re.compile(rb"\s*(<!doctype\s+html|<html|<head|<body)", re.IGNORECASE)
_XML = re.compile(rb"\s*<\?xml", re.IGNORECASE)
_DOWNLOAD = "Download it again, signed in where the server asks for it."
# What can be done about a file that is something else, by a word of what it is.
_ADVICE: tuple[tuple[str, str], ...] = (
    ("archive", "Unpack it and open what is in it."),
    ("web page", _DOWNLOAD),
    ("XML", _DOWNLOAD),
    ("JSON", _DOWNLOAD),
    ("plain text", _DOWNLOAD),
    ("not in any known format", "Download or copy it again, or open the file with the model's weights instead."),
)
_ONNX = re.compile(rb"\x08[\x01-\x14](\x12|\x1a|\x22)[\x01-\x40][ -~]+")


def sniff(file: HeldFile) -> Kind:
    """Return which container a file is.

    Raises:
        CheckpointError: It is none that can be read; the sentence says what it is instead.
    """
    head = file.read(0, min(file.size, HEAD))
    if head.startswith(b"PK\x03\x04"):
        return "zip"
    # Before all magic bytes: a header of 640 bytes begins like a pickle, one of 23,117 like a Windows program.
    if int.from_bytes(head[:8], "little") <= MAX_HEADER and _has_brace(head):
        return "safetensors"
    _refuse_empty(file, head)
    if LEGACY.match(head):
        return "torch-legacy"
    if head.startswith(b"GGUF"):
        return "gguf"
    if is_tar(head):
        return "torch-tar"
    if is_pickle(head):  # one that would run something is called that, whatever else it is
        raise refusal(file, find_unsafe(file))
    _refuse_others(file, head)
    if _looks_like_safetensors(file, head):
        return "safetensors"
    unsafe = find_unsafe(file)  # a pickle may begin with any letter
    if unsafe:
        raise refusal(file, unsafe)
    raise _refusal(file, _describe_text(head))


def check_name(name: str, kind: Kind) -> tuple[Finding, ...]:
    """Return a finding if a file's ending promises another container than it is."""
    suffix = name[name.rfind(".") :].lower() if "." in name else ""
    lies = kind != "safetensors" if suffix == ".safetensors" else kind == "safetensors" and suffix in TORCH_SUFFIXES
    if not lies:
        return ()
    is_kind = _NAMES[kind]
    message = f"{show_path(name)} is {is_kind}, although its name ends in {suffix}."
    return (Finding("misnamed-file", "warning", message, fix="Rename it; the content decides how it is read here."),)


def _refuse_empty(file: HeldFile, head: bytes) -> None:
    if not head:
        raise CheckpointError(
            "empty-file",
            f"{show_path(file.path)} is empty (0 bytes).",
            fix="Download or save it again.",
            path=file.path,
        )
    if is_pointer(head):
        raise _pointer(file, parse_pointer(head))
    if len(head) >= 8 and not head.strip(b"\x00") and _is_zero(file):
        raise CheckpointError(
            "zero-filled",
            f"{show_path(file.path)} holds nothing but zeros in {file.size:,} bytes: "
            "space was reserved, but the content was never written.",
            fix="Download or save it again.",
            path=file.path,
        )


def _pointer(file: HeldFile, pointer: Pointer | None) -> CheckpointError:
    told = f"oid sha256:{pointer.sha256}, size {pointer.size:,} bytes" if pointer else "it names no whole oid and size"
    text = f"{show_path(file.path)} is a Git LFS pointer, not the file itself: {told}."
    there = find_object(file.path, pointer) if pointer else None
    fix = "Run `git lfs pull` in its repository; check FILE --against POINTER compares a download with it."
    if there:
        fix = f"The file is there already: run `git lfs checkout`, or open {show_path(there)}."
    return CheckpointError("lfs-pointer", text, fix=fix, path=file.path)


def _is_zero(file: HeldFile) -> bool:
    """Look at up to 64 places spread over the file: all of a large one would take minutes."""
    step = max(HEAD, file.size // 64)
    places = [*range(0, file.size, step), max(0, file.size - HEAD)]
    return all(not file.read(at, min(HEAD, file.size - at)).strip(b"\x00") for at in places)


def _refuse_others(file: HeldFile, head: bytes) -> None:
    if head.startswith(NUMPY) and (unsafe := find_unsafe_objects(file)):
        raise refusal(file, unsafe, "is a NumPy array of objects that")
    for magic, what in _MAGIC:
        if head.startswith(magic):
            raise _refusal(file, what)
    if head[4:8] == b"TFL3":
        raise _refusal(file, "a TensorFlow Lite file")
    if _ONNX.match(head):
        raise _refusal(file, "perhaps an ONNX file")


def _looks_like_safetensors(file: HeldFile, head: bytes) -> bool:
    """True if the first bytes fit: a length, then `{` (or what a careless writer puts before it)."""
    if len(head) < 8:
        return file.name.lower().endswith(".safetensors")
    length = int.from_bytes(head[:8], "little")
    named = file.name.lower().endswith(".safetensors")
    if len(head) == 8:  # cut right behind the length of its header
        return named and length <= MAX_HEADER and not _is_text(head)
    if _has_brace(head) and not _is_text(head[:8]):
        return named or length < 1 << 40
    return named and length <= MAX_HEADER and length + 8 <= file.size


def _has_brace(head: bytes) -> bool:
    return head[8:].lstrip(b" \t\r\n\xef\xbb\xbf")[:1] == b"{"


def _is_text(data: bytes) -> bool:
    return all(32 <= b < 127 or b in b"\t\r\n" for b in data)


def _describe_text(head: bytes) -> str:
    if _HTML.match(head):
        return "a web page (HTML), probably an error page saved in place of the file"
    try:
        text = head.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start < len(head) - 4:
            return "not in any known format"
        text = head[: error.start].decode("utf-8")
    if _XML.match(head):
        return f"XML text, probably a server's error message ({_start(text)})"
    if text.lstrip()[:1] in ("{", "["):
        return f"JSON text, perhaps an error message or a config ({_start(text)})"
    if text.isprintable() or _is_text(text.encode()):
        return f"plain text ({_start(text)})"
    return "not in any known format"


def _start(text: str) -> str:
    return f"`{safe_text(' '.join(text.split()), 80)}`"


def _refusal(file: HeldFile, what: str) -> CheckpointError:
    return CheckpointError(
        "not-a-checkpoint",
        f"{show_path(file.path)} is {what}, not a checkpoint that can be read here ({file.size:,} bytes).",
        fix=next(
            (advice for word, advice in _ADVICE if word in what), "Open the file with the model's weights instead."
        ),
        path=file.path,
    )
