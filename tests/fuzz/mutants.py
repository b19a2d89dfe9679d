"""Mutants of good files, and what must hold of each: it opens like the reference reader opens it, or it is refused.

Shared by `test_mutants.py` and `scripts/fuzz.py`. Everything follows from a seed.
"""

from __future__ import annotations

import io
import random
import tempfile
import time
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.formats.verify import verify_checksums
from tests import builders as b
from tests.core.formats.test_dcp import save_parts
from tests.core.formats.test_gguf import PLAIN, gguf
from tests.core.formats.test_torch_legacy import TAR_BODY, tar_bytes, tar_members

MAX_SECONDS = 60  # a guard against hangs, not a measurement
MAX_READ = 1 << 20
Tensors = dict[tuple[str, ...], tuple[str, tuple[int, ...], bytes]]

# Where ours may differ from the reference, by id: what ours does, with the code that it tells. Anything else fails.
ALLOWED = {
    "D1": ("refused: ambiguous-archive", "records that two readers see differently: names, places, sizes"),
    "D2": (
        "refused: crc-mismatch",
        "a pickle or a version that does not fit its checksum, which torch does not compare",
    ),
    "D3": ("refused: damaged", "what lenient readers pass over: keys that stand twice, fields of a zip's directory"),
    "D4": ("refused: limit-exceeded", "what inflates, nests or repeats without end"),
    "D5": ("refused: truncated", "a file that ends before its last tensor, where the reference reads others"),
    "D6": ("refused: unsafe-pickle", "a pickle that names what a permissive loader would run"),
    "D7": ("opened: trailing-bytes", "bytes after the end: described, and left out of an export"),
    "D8": ("opened: foreign-object", "classes that are inert here: named"),
    "D9": ("opened: unsafe-pickle", "names that would run: told, the tensors are listed"),
    "D10": ("opened: damaged", "one tensor does not fit its storage: named, the others are listed"),
    "D11": ("opened: metadata-format", "a record or a format that only the reference asks for"),
    "D12": ("opened: crc-mismatch", "data that does not fit its checksum: told by --deep and before an export"),
    "D13": ("opened: missing-tensor", "a tensor without data: named"),
    "D14": ("opened: ambiguous-archive", "one record that is described in two ways: its tensor is not read"),
    "D15": ("opened: legacy-container", "a form that the reference reads no more"),
    "D16": ("refused: not-a-checkpoint", "an archive whose records have the right names but for case"),
}
_IDS = {verdict: number for number, (verdict, _) in ALLOWED.items()}


class Good(NamedTuple):
    """A good file.

    Attributes:
        suffix: The ending of its name.
        data: Its bytes.
        reference: Reads it, or raises anything; None where no other reader is to be trusted with mutants.
        name: Its name in a folder, where it is opened as a part of one.
        beside: The other files of that folder.
    """

    suffix: str
    data: bytes
    reference: Callable[[Path], Tensors] | None = None
    name: str = ""
    beside: Mapping[str, bytes] = {}

    def put(self, path: Path, data: bytes) -> Path:
        """Write a mutant, and what belongs beside it; return what is to be opened."""
        if not self.name:
            path.write_bytes(data)
            return path
        folder = path.with_suffix(".d") / str(len(self.beside))
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in {**self.beside, self.name: data}.items():
            (folder / name).write_bytes(content)
        return folder


def _arrays() -> dict[str, np.ndarray]:
    w = np.arange(40, dtype=np.float32).reshape(8, 5)
    return {"model.embed_tokens.weight": w, "model.norm.weight": w[0], "h.bias": w[:, 0].astype(np.float16), "n": w[:0]}


def _zip(method: int) -> bytes:
    kinds = {"float32": "FloatStorage", "float16": "HalfStorage"}
    arrays = _arrays()
    body = {k: b.tensor(str(i), a.shape, kind=kinds[str(a.dtype)]) for i, (k, a) in enumerate(arrays.items())}
    value = b.dict_of({"model": b.ordered(body), "step": b.number(7), "args": b.list_of(b.number(1), b.text("x"))})
    return b.torch_bytes(value, {str(i): a for i, a in enumerate(arrays.values())}, compression=method)


def _torch(*, legacy: bool) -> bytes:
    import torch

    out = io.BytesIO()
    value = {"model": {k: torch.tensor(a) for k, a in _arrays().items()}, "step": 7}
    value["model"]["tied"] = value["model"]["model.embed_tokens.weight"].t()
    torch.save(value, out, _use_new_zipfile_serialization=not legacy)
    return out.getvalue()


def _npz() -> bytes:
    out = io.BytesIO()
    np.savez(out, **{k: np.asfortranarray(a) for k, a in _arrays().items()})
    return out.getvalue()


def _dcp() -> Good:
    """The metadata of a distributed checkpoint, beside its parts."""
    import torch

    tensors = {k: torch.tensor(a) for k, a in _arrays().items()}
    cuts = {k: [((0,) * t.dim(), tuple(t.shape))] for k, t in tensors.items()}
    cuts["model.embed_tokens.weight"] = [((0, 0), (3, 5)), ((3, 0), (5, 5))]
    with tempfile.TemporaryDirectory() as folder:
        save_parts(Path(folder) / "c", tensors, cuts)
        found = {path.name: path.read_bytes() for path in (Path(folder) / "c").iterdir()}
    return Good("", found.pop(".metadata"), None, ".metadata", found)


def _index() -> Good:
    """The index of two shards, beside them."""
    arrays = _arrays()
    shards = {f"model-0000{n}-of-00002.safetensors": list(arrays)[n - 1 :: 2] for n in (1, 2)}
    data = b.index_bytes({key: name for name, keys in shards.items() for key in keys}, 256)
    beside = {
        name: b.safetensors_bytes({k: arrays[k] for k in keys}, {"format": "pt"}) for name, keys in shards.items()
    }
    return Good("", data, None, "model.safetensors.index.json", beside)


@lru_cache
def good_files() -> Mapping[str, Good]:
    """The files that are mutated."""
    return {
        "safetensors": Good(".safetensors", b.safetensors_bytes(_arrays(), {"format": "pt"}), _read_safetensors),
        "torch": Good(".pt", _torch(legacy=False), _read_torch),
        "zip": Good(".pt", _zip(zipfile.ZIP_STORED), _read_torch),
        "deflated": Good(".pt", _zip(zipfile.ZIP_DEFLATED), _read_torch),
        "legacy": Good(".pt", _torch(legacy=True)),  # torch reserves whatever a mutant claims
        "npz": Good(".npz", _npz(), _read_npz),
        "tar": Good(".tar", tar_bytes(tar_members(b.pickled(TAR_BODY)))),  # torch would unpickle it as it is
        "gguf": Good(".gguf", gguf(PLAIN)),
        "dcp": _dcp(),
        "index": _index(),
    }


def _read_safetensors(path: Path) -> Tensors:
    from safetensors import deserialize

    return {(k,): (v["dtype"], tuple(v["shape"]), bytes(v["data"])) for k, v in deserialize(path.read_bytes())}


def _read_npz(path: Path) -> Tensors:
    with np.load(path, allow_pickle=False) as loaded:
        found = {name: loaded[name] for name in loaded.files}
    return {(k,): ("", a.shape, np.ascontiguousarray(a).tobytes()) for k, a in found.items()}


def _read_torch(path: Path) -> Tensors:
    import torch

    found: Tensors = {}

    def walk(value: Any, at: tuple[str, ...]) -> None:
        if isinstance(value, torch.Tensor):
            flat = value.detach().contiguous().reshape(-1)
            raw = flat.clone().view(torch.uint8).numpy().tobytes() if flat.numel() else b""
            found[at] = ("", tuple(value.shape), raw)
        elif isinstance(value, Mapping):
            for key, item in value.items():
                walk(item, (*at, str(key)))

    walk(torch.load(path, weights_only=True), ())
    return found


def mutate(rng: random.Random, good: bytes) -> bytes:
    """Flip, cut, repeat, splice or overwrite bytes, once or a few times; headers are hit more often than data."""
    data = bytearray(good)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        size = len(data)
        if not size:
            break
        at = rng.randrange(size) if rng.random() < 0.5 else min(int(rng.expovariate(8 / size)), size - 1)
        at = size - 1 - at if rng.random() < 0.3 else at
        choice = rng.random()
        if choice < 0.35:
            data[at] ^= 1 << rng.randrange(8)
        elif choice < 0.55:
            data[at] = rng.randrange(256)
        elif choice < 0.65:
            del data[at:]
        elif choice < 0.75:
            del data[at : at + rng.randrange(1, 64)]
        elif choice < 0.85:
            data[at:at] = data[rng.randrange(size) :][: rng.randrange(1, 64)]
        elif choice < 0.95:
            number = rng.choice((0, 1, 0x7F, 0xFF, 1 << 31, (1 << 32) - 1, 1 << 62, (1 << 63) - 1, (1 << 64) - 1))
            width = rng.choice((1, 2, 4, 8))
            data[at : at + width] = (number & ((1 << 8 * width) - 1)).to_bytes(width, "little")
        else:
            data += rng.randbytes(rng.randrange(1, 200))
    return bytes(data)


def mutants(seed: int, count: int) -> Iterator[tuple[str, Good, bytes]]:
    """Yield the kind, the good file and the mutant, the kinds in turn."""
    files = list(good_files().items())
    rng = random.Random(seed)
    for number in range(count):
        kind, good = files[number % len(files)]
        yield kind, good, mutate(rng, good.data)


def judge(path: Path, good: Good, data: bytes, *, use_reference: bool = True) -> str:
    """Open a mutant, compare it with the reference, and return `refused`, `opened`, or an id of `ALLOWED`.

    Raises:
        AssertionError: It took too long, or read something else than the reference does.
        KeyError: A difference that is not allowed.
        Exception: Anything that is not a `CheckpointError` is a mistake of ours.
    """
    path = good.put(path, data)
    began = time.monotonic()
    ours, told = _ours(path)
    took = time.monotonic() - began
    assert took < MAX_SECONDS, f"took {took:.1f} s"
    if good.reference is None or not use_reference:
        return "refused" if ours is None else "opened"
    theirs = _theirs(good, path)
    if ours is None:
        return "refused" if theirs is None else _IDS[f"refused: {told}"]
    if theirs is None:
        return _IDS[f"opened: {told}"]
    for key, value in ours.items():
        if key in theirs and value is not None:
            _, shape, raw = theirs[key]
            assert value == (shape, raw), f"{key} is not what the reference reads"
    assert told or ours.keys() == theirs.keys(), "not the tensors that the reference lists"
    return "opened"


def _ours(path: Path) -> tuple[dict[tuple[str, ...], Any] | None, str]:
    """Return shape and bytes by path (None for a tensor that cannot be read), and the code of what is told first."""
    found: dict[tuple[str, ...], Any] = {}
    told = ""
    try:
        with open_checkpoint(path) as source:
            for ref in source.refs:
                try:
                    found[ref.path] = (ref.shape, source.read(ref)) if ref.nbytes <= MAX_READ else None
                except CheckpointError as error:
                    found[ref.path], told = None, error.code
            told = next((p.code for p in source.problems), told)
            return found, told or next((p.code for p in verify_checksums(source) if p.severity == "error"), "")
    except CheckpointError as error:
        return None, error.code


def _theirs(good: Good, path: Path) -> Tensors | None:
    assert good.reference is not None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return good.reference(path)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            return None  # they raise many kinds of errors, a panic of Rust among them
