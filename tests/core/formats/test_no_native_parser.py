"""What is read of a file is read by Python and its standard library: no other native code sees bytes of strangers.

That is why parsing needs no process of its own: there is nothing in it that a file could make die of a signal. Figures
are made by NumPy from bytes whose count and shape were checked before.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import torch

from tests.builders import safetensors_bytes, state_dict_bytes
from tests.core.formats.test_dcp import CUTS, TENSORS, save_parts
from tests.core.formats.test_gguf import PLAIN, gguf
from tests.core.formats.test_torch_legacy import tar_bytes

# Opens and plans everything, then tells which native modules from outside the standard library were loaded.
OPEN = """
import json, sys, sysconfig
from importlib.machinery import EXTENSION_SUFFIXES
from ckpt_gui import normalise, open_checkpoint
from ckpt_gui.core.errors import CheckpointError
found = []
for path in sys.argv[1:]:
    try:
        with open_checkpoint(path) as source:
            normalise(source)
            found.append(source.container)
    except CheckpointError as error:
        found.append(error.code)
places = tuple({sysconfig.get_path(name) for name in ("purelib", "platlib")})
files = {name: str(getattr(module, "__file__", None) or "") for name, module in sys.modules.items()}
native = {name for name, file in files.items() if file.startswith(places) and file.endswith(tuple(EXTENSION_SUFFIXES))}
print(json.dumps([found, sorted(native)]))
"""


def test_opening_any_format_runs_no_native_code_of_others(tmp_path: Path) -> None:
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    files = {
        "a.safetensors": safetensors_bytes({"w": array}),
        "a.pt": state_dict_bytes({"w": array}),
        "a.gguf": gguf(PLAIN),
        "a.tar": tar_bytes({"pickle": b"no pickle"}),
        "damaged.safetensors": safetensors_bytes({"w": array})[:-8],
        "damaged.pt": state_dict_bytes({"w": array})[:-300],
        "random.bin": bytes(range(256)) * 4,
    }
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    torch.save({"w": torch.from_numpy(array)}, tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    np.savez(tmp_path / "a.npz", w=array)
    save_parts(tmp_path / "parts", TENSORS, CUTS)
    paths = [str(path) for path in sorted(tmp_path.iterdir())]
    done = subprocess.run(
        [sys.executable, "-c", OPEN, *paths], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    found, native = json.loads(done.stdout)
    assert {"safetensors", "torch-zip", "torch-legacy", "gguf", "npz", "dcp"} <= set(found)
    assert native == []
