"""The filesystems of fsspec: memory, an S3 server (moto's), the hub's client against a hub of our own, SSH."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.remote.faults import Fault
from ckpt_gui.core.remote.store import close_stores
from tests.core.models import config, save_shards, state, stored

fsspec = pytest.importorskip("fsspec")
# moto's server at a port that the system gives it; it says which, and ends with its input.
S3_SERVER = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"""


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[str]:
    """A model of three shards in fsspec's memory."""
    save_shards(tmp_path / "m", state(), 3, config=config())
    files = fsspec.filesystem("memory")
    for path in (tmp_path / "m").iterdir():
        files.pipe(f"/box/m/{path.name}", path.read_bytes())
    yield "memory://box/m"
    files.rm("/box", recursive=True)


def test_a_folder_in_memory(memory: str, tmp_path: Path) -> None:
    with open_checkpoint(memory) as there, open_checkpoint(tmp_path / "m") as here:
        assert there.is_folder
        assert there.sidecars.config == config()
        assert stored(there) == stored(here)


def test_the_wrong_level_names_the_folder_inside(memory: str) -> None:
    with pytest.raises(CheckpointError, match="those in its folder m can be opened") as caught:
        open_checkpoint(memory.removesuffix("/m"))
    assert caught.value.fix == "Open m instead."


def test_what_is_not_there(memory: str) -> None:
    with pytest.raises(CheckpointError, match=r"memory://box/none.safetensors cannot be read: .*\(404\)"):
        open_checkpoint("memory://box/none.safetensors")


@pytest.mark.filterwarnings("ignore:torch.distributed is")
def test_a_distributed_checkpoint_in_memory(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from torch.distributed.checkpoint import FileSystemWriter, save

    save({"w": torch.arange(12.0).reshape(3, 4)}, storage_writer=FileSystemWriter(tmp_path / "d"), no_dist=True)
    files = fsspec.filesystem("memory")
    for path in (tmp_path / "d").iterdir():
        files.pipe(f"/dcp/{path.name}", path.read_bytes())
    with open_checkpoint("memory://dcp") as there:
        assert np.frombuffer(there.read(there.refs[0]), np.float32).tolist() == list(range(12))
    files.rm("/dcp", recursive=True)


@pytest.mark.parametrize("url", ["reference://x/y", "simplecache::s3://b/m", "local://etc", "nosuch://a/b"])
def test_what_is_no_server_is_refused(url: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(url)
    assert caught.value.code == "not-a-checkpoint"


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import builtins

    real = builtins.__import__

    def without(name: str, *args: object, **kwargs: object) -> object:
        if name == "fsspec":
            raise ImportError("no fsspec", name="fsspec")
        return real(name, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(CheckpointError, match="fsspec is not installed") as caught:
        open_checkpoint("s3://bucket/m")
    assert 'pip install "ckpt_gui[remote]"' in (caught.value.fix or "")


# ---------------------------------------------------------------------------------------------------------------- S3


@pytest.fixture(scope="module")
def s3_server() -> Iterator[str]:
    """moto's server in a process of its own."""
    pytest.importorskip("s3fs")
    pytest.importorskip("moto")
    pytest.importorskip("flask")
    command = [sys.executable, "-c", S3_SERVER]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"


@pytest.fixture
def s3(s3_server: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """A bucket with a model of three shards; credentials in the environment, as for any program."""
    s3fs = pytest.importorskip("s3fs")
    for name, value in (("AWS_ENDPOINT_URL", s3_server), ("AWS_ACCESS_KEY_ID", "key"),
                        ("AWS_SECRET_ACCESS_KEY", "word"), ("AWS_DEFAULT_REGION", "us-east-1")):  # fmt: skip
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    s3fs.S3FileSystem.clear_instance_cache()
    save_shards(tmp_path / "m", state(), 3, config=config())
    files = s3fs.S3FileSystem()
    bucket = f"box-{abs(hash(str(tmp_path))):x}"
    files.mkdir(bucket)
    for path in (tmp_path / "m").iterdir():
        files.pipe(f"{bucket}/models/m/{path.name}", path.read_bytes())
    return f"s3://{bucket}/models/m"


def test_a_folder_on_s3(s3: str, tmp_path: Path) -> None:
    with open_checkpoint(s3) as there, open_checkpoint(tmp_path / "m") as here:
        assert there.is_folder
        assert all(file.identity for file in there.files)
        assert there.sidecars.config == config()
        assert stored(there) == stored(here)


def test_one_file_on_s3(s3: str) -> None:
    with open_checkpoint(f"{s3}/model-00002-of-00003.safetensors") as there:
        assert len(there.files) == 1
        assert there.read(there.refs[0])


def test_what_changed_on_s3_is_refused(s3: str) -> None:
    import s3fs

    name = f"{s3}/model-00001-of-00003.safetensors"
    values = np.arange(1 << 20, dtype=np.float32)
    from tests import builders

    s3fs.S3FileSystem().pipe(name.removeprefix("s3://"), builders.safetensors_bytes({"w": values}))
    with open_checkpoint(name) as there:
        s3fs.S3FileSystem().pipe(name.removeprefix("s3://"), builders.safetensors_bytes({"w": values + 1}))
        with pytest.raises(CheckpointError, match="another file there now"):
            there.read(there.refs[0], 2 << 20, 3 << 20)
    with open_checkpoint(name) as again:
        assert again.read(again.refs[0]) == (values + 1).tobytes()


def test_what_changed_before_another_reader_began_is_refused(s3: str) -> None:
    """Each reader has a handle of its own, bound to the file that it finds: not the one that was opened."""
    import s3fs

    from ckpt_gui.core.remote.store import store_for
    from tests import builders

    name = f"{s3}/model-00001-of-00003.safetensors"
    store = store_for(name)
    stat = store.open(name, 0).stat
    s3fs.S3FileSystem().pipe(name.removeprefix("s3://"), builders.safetensors_bytes({"w": np.arange(9.0)}))
    with pytest.raises(Fault, match="another file there now"):
        store.read(name, stat, 0, 8)


def test_what_is_not_on_s3(s3: str) -> None:
    with pytest.raises(CheckpointError, match=r"\(404\)"):
        open_checkpoint(f"{s3}/nothing.safetensors")


def test_no_credentials(s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import s3fs

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    s3fs.S3FileSystem.clear_instance_cache()
    close_stores()
    with pytest.raises(CheckpointError, match="refuses access") as caught:
        open_checkpoint(f"{s3}/model-00001-of-00003.safetensors")
    assert "AWS_PROFILE" in (caught.value.fix or "")
    assert "FSSPEC_S3_ANON=true" in (caught.value.fix or "")


def test_an_endpoint_that_is_not_there(s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import s3fs

    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    s3fs.S3FileSystem.clear_instance_cache()
    close_stores()
    with pytest.raises(CheckpointError, match="the server did not answer"):
        open_checkpoint(f"{s3}/model-00001-of-00003.safetensors")
