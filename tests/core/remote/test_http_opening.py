"""Checkpoints on a real HTTP server: the same as on the disk, with few requests."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

from ckpt_gui.core.errors import Cancelled
from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.normalise import normalise
from ckpt_gui.core.remote.blocks import CACHE
from ckpt_gui.core.remote.watch import watching
from ckpt_gui.core.scan import scan
from tests import builders
from tests.core.models import config, save, save_shards, state, stored


def test_one_file_is_the_same_as_on_the_disk(tmp_path: Path, server, serve) -> None:
    save(tmp_path / "m", state(), config=config())
    url = serve(tmp_path / "m")
    with open_checkpoint(f"{url}/model.safetensors") as there, open_checkpoint(tmp_path / "m") as here:
        assert stored(there) == stored(here)
        assert there.sidecars.config == here.sidecars.config
        assert there.sidecars.folder == url
        assert not there.is_folder
    assert server.requests_of("model.safetensors") == 1


def test_a_folder_is_led_by_its_index_with_one_request_a_shard(tmp_path: Path, server, serve) -> None:
    save_shards(tmp_path / "m", state(), 5, config=config())
    url = serve(tmp_path / "m")
    with open_checkpoint(url) as there, open_checkpoint(tmp_path / "m") as here:
        assert [ref.full_key for ref in there.refs] == [ref.full_key for ref in here.refs]
        assert there.is_folder
        assert [f.code for f in there.problems] == [f.code for f in here.problems]
        opened = len(server.asked)
        shards = [name for name in server.files if name.endswith(".safetensors")]
        assert [server.requests_of(name) for name in shards] == [1] * 5
        assert stored(there) == stored(here)
    assert len(server.asked) == opened  # the heads that came with the opening hold these small tensors as well


def test_the_index_itself_and_a_folder_with_a_slash(tmp_path: Path, server, serve) -> None:
    save_shards(tmp_path / "m", state(), 3, config=config())
    url = serve(tmp_path / "m")
    for address in (f"{url}/model.safetensors.index.json", f"{url}/"):
        with open_checkpoint(address) as there:
            assert there.is_folder
            assert len(there.files) == 3


def test_a_large_header_takes_a_second_request(tmp_path: Path, server, serve) -> None:
    tensors = {f"layer.{i}.weight": np.full((2, 2), i, np.float32) for i in range(5000)}
    (tmp_path / "big.safetensors").write_bytes(builders.safetensors_bytes(tensors))
    url = serve(tmp_path)
    with open_checkpoint(f"{url}/big.safetensors") as there:
        assert len(there.refs) == 5000
        assert server.requests_of("big.safetensors") == 2


def test_a_torch_file_is_read_by_head_and_tail(tmp_path: Path, server, serve) -> None:
    rng = np.random.default_rng(3)
    tensors = {f"w{i}": rng.normal(size=(300, 500)).astype(np.float32) for i in range(4)}  # 2.4 MB
    (tmp_path / "m.pth").write_bytes(builders.state_dict_bytes(tensors))
    url = serve(tmp_path)
    with open_checkpoint(f"{url}/m.pth") as there:
        assert server.requests_of("m.pth") <= 3
        fetched = CACHE.nbytes
        assert np.array_equal(np.frombuffer(there.read(there.refs[2]), np.float32).reshape(300, 500), tensors["w2"])
        assert CACHE.nbytes > fetched


def test_a_missing_shard_is_told_and_the_others_open(tmp_path: Path, server, serve) -> None:
    save_shards(tmp_path / "m", state(), 3, config=config())
    url = serve(tmp_path / "m")
    gone = sorted(name for name in server.files if name.endswith(".safetensors"))[1]
    del server.files[gone]
    with open_checkpoint(url) as there:
        missing = next(f for f in there.problems if f.code == "shard-missing")
        assert gone.rpartition("/")[2] in missing.message
        assert missing.blocking
        assert len(there.files) == 2


def test_a_large_tensor_comes_in_pieces_side_by_side(tmp_path: Path, server, serve) -> None:
    values = np.arange(5 << 20, dtype=np.float32)  # 20 MiB
    (tmp_path / "m.safetensors").write_bytes(builders.safetensors_bytes({"w": values}))
    url = serve(tmp_path)
    with open_checkpoint(f"{url}/m.safetensors") as there:
        before = len(server.asked)
        assert there.read(there.refs[0]) == values.tobytes()
        assert len(server.asked) - before == 3  # of 8 MiB each
        assert CACHE.nbytes < 1 << 20


def test_reading_on_fetches_ahead(tmp_path: Path, server, serve) -> None:
    values = np.arange(4 << 20, dtype=np.float32)  # 16 MiB
    (tmp_path / "m.safetensors").write_bytes(builders.safetensors_bytes({"w": values}))
    url = serve(tmp_path)
    step = 256 << 10
    with open_checkpoint(f"{url}/m.safetensors") as there:
        before = len(server.asked)
        read = b"".join(there.read(there.refs[0], at, at + step) for at in range(0, 16 << 20, step))
        assert read == values.tobytes()
        assert len(server.asked) - before < 12  # and not one for each of the 64


def test_the_cache_is_bounded_and_forgets_what_is_closed(tmp_path: Path, server, serve) -> None:
    (tmp_path / "m.safetensors").write_bytes(builders.safetensors_bytes({"w": np.arange(1 << 18, dtype=np.float32)}))
    url = serve(tmp_path)
    there = open_checkpoint(f"{url}/m.safetensors")
    there.read(there.refs[0], 0, 1 << 20)
    held = CACHE.nbytes
    assert held >= 1 << 20
    there.close()
    assert CACHE.nbytes < held


def test_progress_tells_requests_and_bytes(tmp_path: Path, server, serve) -> None:
    save_shards(tmp_path / "m", state(), 3, config=config())
    told: list[str] = []
    open_checkpoint(serve(tmp_path / "m"), progress=lambda text, done, total: told.append(text)).close()
    assert any(text.startswith("fetching: ") and "requests" in text and "MB" in text for text in told)
    assert told[-1].startswith(("opening", "fetching"))


def test_cancelling_does_not_wait_for_the_server(tmp_path: Path, server, serve) -> None:
    save_shards(tmp_path / "m", state(), 3, config=config())
    url = serve(tmp_path / "m")
    server.misbehave("silent")
    seen = threading.Event()
    with pytest.raises(Cancelled):
        open_checkpoint(
            url, cancelled=lambda: seen.is_set() or (server.requests_of(".safetensors") > 0 and not seen.set())
        )


def test_a_folder_whose_name_has_a_dot(tmp_path: Path, server, serve) -> None:
    save(tmp_path / "Llama-3.2-1B", state(), config=config())
    with open_checkpoint(serve(tmp_path / "Llama-3.2-1B", "/Llama-3.2-1B")) as there:
        assert there.is_folder
        assert there.files[0].name == "model.safetensors"


def test_giving_up_ends_the_threads_that_wait(tmp_path: Path, server, serve) -> None:
    save_shards(tmp_path / "m", state(), 3, config=config())
    url = serve(tmp_path / "m")
    server.misbehave("silent")

    def stop(text: str, done: int, total: int) -> None:
        if server.requests_of(".safetensors"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        open_checkpoint(url, progress=stop)
    waiting = [thread for thread in threading.enumerate() if thread.name.startswith("ThreadPoolExecutor")]
    for thread in waiting:
        thread.join(60)  # the server would not answer before the end of this test
    assert not any(thread.is_alive() for thread in waiting)


def test_the_workers_of_a_job_that_is_stopped_wait_for_no_server(tmp_path: Path, server, serve) -> None:
    values = np.arange(1 << 20, dtype=np.float32).reshape(1024, 1024)
    (tmp_path / "m.safetensors").write_bytes(builders.safetensors_bytes({"a": values, "b": values + 1}))
    with open_checkpoint(f"{serve(tmp_path)}/m.safetensors") as there:
        server.misbehave("silent")
        before = len(server.asked)
        with watching(None, lambda: len(server.asked) > before):
            found = scan(normalise(there), workers=2)
        assert not found.complete
        assert len(server.asked) - before <= 4  # and no more tries
