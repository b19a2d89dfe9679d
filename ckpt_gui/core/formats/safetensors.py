"""The safetensors container: reading tensors, and laying out a file to be written.

The header is the matter of `safetensors_header`. The reference library maps a file into memory even to parse its
header; here nothing is mapped (see `files`).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from json.encoder import encode_basestring as _quoted

from ckpt_gui.core.bulk import blocks
from ckpt_gui.core.dtypes import BY_NAME, BY_SAFETENSORS
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.formats.files import HeldFile
from ckpt_gui.core.formats.layout import FileLayout
from ckpt_gui.core.formats.safetensors_header import METADATA, Header
from ckpt_gui.core.formats.sniff import MAX_HEADER
from ckpt_gui.core.formats.strict_json import is_encodable
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.source import DISK_BLOCK
from ckpt_gui.core.tensors import TensorRef, TensorSpec, check_window
from ckpt_gui.dataclasses import dataclass

# The order of the reference's `Dtype` (tensor.rs, 0.8), narrowest first: it sorts tensors by it, widest first.
_ORDER = (
    *("BOOL", "F4", "F6_E2M3", "F6_E3M2", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"),
    *("I16", "U16", "F16", "BF16", "I32", "U32", "F32", "C64", "F64", "I64", "U64"),
)
Metadata = tuple[tuple[str, str], ...]  # name and text
_RANK = {BY_SAFETENSORS[code].name: rank for rank, code in enumerate(_ORDER)}


class SafetensorsReader:
    """Reads tensors of one safetensors file."""

    def __init__(self, file: HeldFile, header: Header) -> None:
        """Keep the open file and the place of each tensor."""
        self.file = file
        self._header: Header | None = header
        self._begins: dict[str, int] = {}

    def read_into(self, ref: TensorRef, start: int, out: memoryview) -> None:
        """Fill `out` with bytes of a tensor; see `tensors.Reader`."""
        check_window(ref, start, len(out))
        self.file.pread_into(self._begin(ref) + start, out)

    def region(self, ref: TensorRef) -> tuple[int, int]:
        """Return the offset and the length of a tensor's bytes in the file."""
        return self._begin(ref), ref.nbytes

    def run_of(self, ref: TensorRef) -> tuple[HeldFile, int]:
        """Return the file and where a tensor begins; see `tensors.HasRuns`."""
        return self.file, self._begin(ref)

    def next_data(self, ref: TensorRef, start: int) -> int:
        """Return where bytes other than zeros may begin; see `tensors.HasHoles`."""
        begin, length = self.region(ref)
        return self.file.next_data(begin + start, begin + length) - begin

    def check_unchanged(self) -> None:
        """Raise if the file is not as it was when it was opened."""
        self.file.check_unchanged()

    def close(self) -> None:
        """Close the file."""
        self.file.close()

    def _begin(self, ref: TensorRef) -> int:
        header = self._header
        if header is not None:  # at the first read: opening alone needs no table of places
            self._begins = {r.storage: begin for r, begin in zip(header.refs, header.begins, strict=True)}
            self._header = None
        return self._begins[ref.storage] + ref.offset


def layout(
    specs: Sequence[TensorSpec], metadata: Mapping[str, str], origins: Mapping[str, int] | None = None
) -> FileLayout:
    """Lay out a safetensors file: tensors by alignment, widest first, then by key, as safetensors 0.8 does.

    Args:
        specs: The tensors.
        metadata: Goes into the header.
        origins: Where tensors that are copied as they are begin in the files that they come from, by key. The header is
            padded with spaces so that most of their bytes come to lie as far from the start of a block of the disk:
            file systems that share blocks can copy them in no time.

    Raises:
        CheckpointError: A key or a type that the format cannot hold, or a header above its limit.
    """
    _check_writable(specs)
    ordered = tuple(sorted(specs, key=lambda s: (-_RANK[s.dtype], s.key)))
    begins: dict[str, int] = {}
    end = 0
    for spec in ordered:
        begins[spec.key] = end
        end += spec.nbytes
    told = tuple(metadata.items())
    size = _header_bytes(ordered, told)
    if origins:
        size += _shift(specs, begins, origins, 8 + size)
    start = 8 + size
    offsets = {key: start + begin for key, begin in begins.items()}
    return FileLayout(start + end, offsets, {s.key: s.nbytes for s in ordered}, _Head(ordered, told, size))


@dataclass(frozen=True, slots=True)
class _Head:
    """What makes the header, the one patch of a safetensors file: a value that can be sent to another process.

    The text of 500,000 tensors has 75 MB; it is made when it is written.

    Attributes:
        specs: The tensors in the order of the file.
        metadata: Name and text of each.
        size: Bytes of the header, spaces at its end included.
    """

    specs: tuple[TensorSpec, ...]
    metadata: Metadata
    size: int

    def __call__(self, _: Mapping[str, int]) -> Iterator[tuple[int, bytes]]:
        yield 0, self.size.to_bytes(8, "little") + _header(self.specs, self.metadata).ljust(self.size)


def _header_bytes(specs: Sequence[TensorSpec], metadata: Metadata) -> int:
    """Return how many bytes a header has at least, filled up to a multiple of 8.

    Raises:
        CheckpointError: They are more than the format allows.
    """
    count = len(_header(specs, metadata))
    count += -count % 8
    if count > MAX_HEADER:
        raise CheckpointError(
            "limit-exceeded",
            f"The header of the safetensors file would have {count:,} bytes; the format allows {MAX_HEADER:,}.",
            fix="Write more shards.",
        )
    return count


def _header(specs: Sequence[TensorSpec], metadata: Metadata) -> bytes:
    """Return the header as JSON: an item after the other, since all of them as dicts take 250 MB."""
    text, end = bytearray(b"{"), 0
    if metadata:
        text += f"{_quoted(METADATA)}:{_compact(dict(metadata))},".encode()
    for block in blocks(specs):
        items = []
        for spec in block:
            begin, end = end, end + spec.nbytes
            sizes = ",".join(map(str, spec.shape))
            code = BY_NAME[spec.dtype].safetensors
            items.append(f'{_quoted(spec.key)}:{{"dtype":"{code}","shape":[{sizes}],"data_offsets":[{begin},{end}]}},')
        text += "".join(items).encode()
    if text.endswith(b","):
        del text[-1:]
    text += b"}"
    return bytes(text)


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _shift(specs: Sequence[TensorSpec], begins: Mapping[str, int], origins: Mapping[str, int], start: int) -> int:
    """Return by how many bytes the data must move to lie in blocks of the disk as most of it did before."""
    nbytes: Counter[int] = Counter()
    for spec in specs:
        if spec.key in origins:
            nbytes[(origins[spec.key] - begins[spec.key] - start) % DISK_BLOCK] += spec.nbytes
    best = max(nbytes, key=lambda shift: (nbytes[shift], -shift), default=0)
    return best if best % 8 == 0 else 0  # data begins at a multiple of 8


def _check_writable(specs: Sequence[TensorSpec]) -> None:
    seen: set[str] = set()
    for spec in specs:
        problem = None
        if spec.key in ("", METADATA):
            problem = "is empty" if not spec.key else "is reserved by the format"
        elif spec.key in seen:
            problem = "stands twice"
        elif BY_NAME[spec.dtype].safetensors is None:
            problem = f"has the type {spec.dtype}, which safetensors does not know"
        elif BY_NAME[spec.dtype].bits * spec.numel % 8:
            problem = "has a number of elements that does not fill whole bytes"
        elif not is_encodable(spec.key):
            problem = "holds half a character (surrogate)"
        if problem:
            shown = safe_text(spec.key)
            raise CheckpointError(
                "key-collision", f"A safetensors file cannot hold `{shown}`: it {problem}.", key=spec.key
            )
        seen.add(spec.key)
