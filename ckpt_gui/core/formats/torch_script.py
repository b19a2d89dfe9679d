"""TorchScript archives (`torch.jit.save`): a program and its weights. The program is neither read nor run.

`data.pkl` holds the module objects, nested as the program has them; their attributes are the parameters. The names of
its classes (`__torch__.…`) lead into `code/` and are never looked up.
"""

from __future__ import annotations

from typing import Any

from ckpt_gui import dataclasses
from ckpt_gui.core.errors import Finding
from ckpt_gui.core.formats.file_errors import show_path
from ckpt_gui.core.formats.pickle_load import MAX_BYTES, PickleResult, load_pickle
from ckpt_gui.core.formats.pickle_records import stray_pickles
from ckpt_gui.core.formats.torch_file import TorchFile, make_file
from ckpt_gui.core.formats.torch_zip import TorchZipReader, find_storages, is_swapped, record_checksums, refuse_twins
from ckpt_gui.core.formats.trailing import find_trailing
from ckpt_gui.core.formats.zip_archive import Archive
from ckpt_gui.core.tensors import TensorRef

_OWN = ("__torch__.", "torch.jit._pickle.")


def is_script(archive: Archive) -> bool:
    """True if an archive holds a program of torch."""
    return archive.root != "" and {"data.pkl", "constants.pkl"} <= archive.records.keys()


def read_script(archive: Archive, name: str) -> TorchFile:
    """List the weights of a TorchScript archive, under the names that its `state_dict` would have.

    Raises:
        CheckpointError: It is damaged, or asks for more than is allowed.
    """
    file = archive.file
    refuse_twins(archive)
    result = load_pickle(archive.content(archive.records["data.pkl"], MAX_BYTES), where="data.pkl")
    storages = find_storages(archive)
    swapped = is_swapped(archive)
    found = make_file(
        "torchscript",
        name,
        TorchZipReader(archive, swapped=swapped),
        {key: record.size for key, record in storages.items()},
        _without_own(result),
        {} if swapped else record_checksums(storages, name),
        [_finding(file.name), *stray_pickles(archive), *find_trailing(file, archive.trailing, "its archive")],
    )
    refs = tuple(dataclasses.replace(ref, key=".".join(ref.path), section=()) for ref in found.refs)
    return dataclasses.replace(found, refs=refs, tree=_flat(refs))


def _flat(refs: tuple[TensorRef, ...]) -> dict[str, Any]:
    return {ref.key: ref for ref in refs}


def _without_own(result: PickleResult) -> PickleResult:
    """Leave out the classes of the archive's own program: only torch.jit.load would make them, from its code."""
    foreign = tuple(n for n in result.foreign if not n.startswith(_OWN))
    return dataclasses.replace(result, foreign=foreign, unsafe=tuple(n for n in result.unsafe if n in foreign))


def _finding(name: str) -> Finding:
    message = f"{show_path(name)} is a TorchScript archive: a program with its weights. The weights are listed here."
    return Finding("legacy-container", "info", message, fix="An export holds the weights; the program is left out.")
