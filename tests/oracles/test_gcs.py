"""`gs://` through gcsfs, against an emulator of Google's storage that nobody here wrote."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.remote.store import close_stores
from tests import builders
from tests.core.models import config, save_shards, state, stored

os.environ.setdefault("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")  # asks by gRPC, which the emulator has not
gcsfs = pytest.importorskip("gcsfs")
pytest.importorskip("gcp_storage_emulator")
pytestmark = pytest.mark.oracle
NAME = "box/m/model-00001-of-00003.safetensors"


@pytest.fixture(scope="module")
def emulator() -> Iterator[str]:
    """The emulator, in a process of its own; its address."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    command = [sys.executable, "-m", "gcp_storage_emulator", "start", "--host=127.0.0.1", f"--port={port}",
               "--in-memory", "--default-bucket=box"]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(300):
            with socket.socket() as probe:
                if not probe.connect_ex(("127.0.0.1", port)):
                    break
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(10)


@pytest.fixture
def files(emulator: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[gcsfs.GCSFileSystem]:
    """A model of three shards in a bucket."""
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", emulator)
    monkeypatch.setenv("FSSPEC_GS_TOKEN", "anon")
    gcsfs.GCSFileSystem.clear_instance_cache()
    save_shards(tmp_path / "m", state(), 3, config=config())
    made = gcsfs.GCSFileSystem(token="anon")
    for path in (tmp_path / "m").iterdir():
        made.pipe(f"box/m/{path.name}", path.read_bytes())
    yield made
    close_stores()


def test_a_folder(files: gcsfs.GCSFileSystem, tmp_path: Path) -> None:
    with open_checkpoint("gs://box/m") as there, open_checkpoint(tmp_path / "m") as here:
        assert there.is_folder
        assert all(file.identity for file in there.files)
        assert there.sidecars.config == config()
        assert stored(there) == stored(here)


def test_what_is_not_there(files: gcsfs.GCSFileSystem) -> None:
    with pytest.raises(CheckpointError, match=r"\(404\)"):
        open_checkpoint("gs://box/m/nothing.safetensors")


def test_what_changed_is_refused(files: gcsfs.GCSFileSystem) -> None:
    values = np.arange(200_000, dtype=np.float32)
    files.pipe(NAME, builders.safetensors_bytes({"w": values}))
    with open_checkpoint(f"gs://{NAME}") as there:
        files.pipe(NAME, builders.safetensors_bytes({"w": values + 1}))
        with pytest.raises(CheckpointError, match="another file there now"):
            there.read(there.refs[0], 500_000, 600_000)
    with open_checkpoint(f"gs://{NAME}") as again:
        assert again.read(again.refs[0]) == (values + 1).tobytes()
