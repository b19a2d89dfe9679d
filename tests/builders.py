"""Tiny checkpoints made by hand, byte by byte, without torch and without safetensors.

The pickles are put together from opcodes, so that a test can say exactly what a file holds, hostile files included.
"""

from __future__ import annotations

import io
import json
import os
import struct
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

CODES = {
    "float32": "F32",
    "float16": "F16",
    "float64": "F64",
    "uint8": "U8",
    "int64": "I64",
    "int32": "I32",
    "bool": "BOOL",
}
LFS_POINTER = (
    b"version https://git-lfs.github.com/spec/v1\n"
    b"oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\n"
    b"size 12345\n"
)


def write(path: Path, data: bytes) -> Path:
    """Write a file and return its path."""
    path.write_bytes(data)
    return path


def set_back(path: Path, was: os.stat_result) -> None:
    """Give a file that was changed the mtime it had, so that its ctime alone tells: another, however slow its clock."""
    while True:
        os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))
        if path.stat().st_ctime_ns != was.st_ctime_ns:
            return


# ---- safetensors


def raw_safetensors(header: bytes | str | Any, data: bytes = b"", length: int | None = None) -> bytes:
    """A safetensors file from a header (bytes, text, or a value to be dumped) and data."""
    if not isinstance(header, (bytes, str)):
        header = json.dumps(header)
    raw = header.encode() if isinstance(header, str) else header
    return struct.pack("<Q", len(raw) if length is None else length) + raw + data


def safetensors_bytes(tensors: Mapping[str, np.ndarray], metadata: Mapping[str, str] | None = None) -> bytes:
    """A good safetensors file."""
    header: dict[str, Any] = {} if metadata is None else {"__metadata__": dict(metadata)}
    data = b""
    for key, array in tensors.items():
        raw = np.ascontiguousarray(array).tobytes()
        header[key] = entry(CODES[str(array.dtype)], array.shape, len(data), len(data) + len(raw))
        data += raw
    return raw_safetensors(header, data)


def entry(dtype: Any, shape: Iterable[Any], begin: Any, end: Any) -> dict[str, Any]:
    """An entry of a safetensors header."""
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}


def index_bytes(weight_map: Any, total_size: Any = None) -> bytes:
    """An index file."""
    metadata = {} if total_size is None else {"total_size": total_size}
    return json.dumps({"metadata": metadata, "weight_map": weight_map}).encode()


# ---- pickle, by opcode


def name(module: str, qualname: str) -> bytes:
    """GLOBAL."""
    return f"c{module}\n{qualname}\n".encode()


def text(value: str) -> bytes:
    """BINUNICODE."""
    raw = value.encode("utf-8", "surrogatepass")
    return b"X" + struct.pack("<I", len(raw)) + raw


def number(value: int) -> bytes:
    """BININT1, BININT or LONG1."""
    if 0 <= value < 256:
        return b"K" + bytes([value])
    if -(1 << 31) <= value < 1 << 31:
        return b"J" + struct.pack("<i", value)
    raw = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
    return b"\x8a" + bytes([len(raw)]) + raw


def tuple_of(*parts: bytes) -> bytes:
    """MARK … TUPLE."""
    return b"(" + b"".join(parts) + b"t"


def list_of(*parts: bytes) -> bytes:
    """EMPTY_LIST MARK … APPENDS."""
    return b"](" + b"".join(parts) + b"e"


def dict_of(pairs: Mapping[str, bytes] | Iterable[tuple[bytes, bytes]]) -> bytes:
    """EMPTY_DICT MARK … SETITEMS; keys are text, or opcodes where pairs are given."""
    items = [(text(k), v) for k, v in pairs.items()] if isinstance(pairs, Mapping) else list(pairs)
    return b"}(" + b"".join(k + v for k, v in items) + b"u"


def call(target: bytes, *args: bytes) -> bytes:
    """REDUCE."""
    return target + tuple_of(*args) + b"R"


def obj(target: bytes, state: bytes) -> bytes:
    """NEWOBJ and BUILD, as for a plain object of a class."""
    return target + b")\x81" + state + b"b"


def ordered(pairs: Mapping[str, bytes], metadata: bytes | None = None) -> bytes:
    """An OrderedDict, with `_metadata` if given."""
    made = call(name("collections", "OrderedDict")) + dict_of(pairs)[1:]
    return made if metadata is None else made + dict_of({"_metadata": metadata}) + b"b"


def storage(kind: str, key: str, numel: int, location: str = "cpu") -> bytes:
    """A persistent id of a storage."""
    parts = (text("storage"), name("torch", kind), text(key), text(location), number(numel))
    return tuple_of(*parts) + b"Q"


def tensor(
    key: str,
    shape: Iterable[int],
    *,
    kind: str = "FloatStorage",
    numel: int | None = None,
    strides: Iterable[int] | None = None,
    offset: int = 0,
    location: str = "cpu",
) -> bytes:
    """A call of torch's `_rebuild_tensor_v2`."""
    shape = tuple(shape)
    if strides is None:
        strides = [int(np.prod(shape[i + 1 :], dtype=np.int64)) for i in range(len(shape))]
    count = int(np.prod(shape, dtype=np.int64)) if numel is None else numel
    return call(
        name("torch._utils", "_rebuild_tensor_v2"),
        storage(kind, key, count, location),
        number(offset),
        tuple_of(*map(number, shape)),
        tuple_of(*map(number, strides)),
        b"\x89",
        call(name("collections", "OrderedDict")),
    )


def pickled(body: bytes, protocol: int = 2) -> bytes:
    """PROTO … STOP."""
    return b"\x80" + bytes([protocol]) + body + b"."


# ---- torch archives


def torch_bytes(
    body: bytes,
    storages: Mapping[str, bytes | np.ndarray] | None = None,
    *,
    root: str = "archive",
    more: Iterable[tuple[str, bytes]] = (),
    compression: int = zipfile.ZIP_STORED,
    byteorder: bytes | None = b"little",
) -> bytes:
    """A torch file: `body` is the opcodes of the value, `storages` the bytes of each record."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as archive:
        archive.writestr(_info(f"{root}/data.pkl", compression), pickled(body))
        if byteorder is not None:
            archive.writestr(_info(f"{root}/byteorder", zipfile.ZIP_STORED), byteorder)
        for key, data in (storages or {}).items():
            raw = data.tobytes() if isinstance(data, np.ndarray) else data
            archive.writestr(_info(f"{root}/data/{key}", compression), raw)
        archive.writestr(_info(f"{root}/version", zipfile.ZIP_STORED), b"3\n")
        for extra_name, extra in more:
            archive.writestr(_info(extra_name, zipfile.ZIP_STORED), extra)
    return out.getvalue()


def state_dict_bytes(tensors: Mapping[str, np.ndarray], section: str | None = None) -> bytes:
    """A torch file with an OrderedDict of fp32 tensors, nested under a section if given."""
    body = ordered({key: tensor(str(i), array.shape) for i, (key, array) in enumerate(tensors.items())})
    if section is not None:
        body = dict_of({section: body, "step": number(7)})
    return torch_bytes(body, {str(i): array.astype(np.float32) for i, array in enumerate(tensors.values())})


def _info(filename: str, compression: int) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(filename)
    info.compress_type = compression
    return info
