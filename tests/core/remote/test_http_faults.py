"""What an HTTP server can do wrong: each a sentence with the address, and what to do."""

from __future__ import annotations

import gc
import socket
import time
import weakref
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.remote import blob, connections, http, http_answers
from ckpt_gui.core.remote.faults import Fault
from tests import builders
from tests.core.models import config, save_shards, state, stored

TENSORS = {"a.weight": np.arange(400_000, dtype=np.float32), "b.weight": np.full((8, 3), 7, np.float32)}


class Answer:
    """Stands for bytes that came; unlike those it can be looked after."""


@dataclass(frozen=True, slots=True)
class Wrong:
    """A fault of the server, the words that tell of it, and the words of what to do."""

    fault: str
    says: str
    fix: str


FATAL = (
    Wrong("401", "asks for a sign-in (401)", "HF_TOKEN"),
    Wrong("403", "refuses access (403)", "AWS_PROFILE"),
    Wrong("416", "ends before what was asked for", "Open it again"),
    Wrong("429", "asks to slow down (429)", "Wait"),
    Wrong("503", "is overloaded", "Try again later"),
    Wrong("html", "answers with a web page in place of the file", "Sign in"),
    Wrong("login", "answers with a web page for a sign-in", "Sign in"),
    Wrong("to_file", "leads on to file, which is no web address", "Do not use"),
    Wrong("circle", "leads on more than 5 times", "address"),
    Wrong("short", "broke off after", "connection"),
    Wrong("dropped", "the server ", "connection"),
    Wrong("range", "sends another part of the file than it was asked for", "Download it first"),
    Wrong("gzip", "packs what it sends (gzip)", "Download it first"),
    Wrong("whole_large", "sends no parts of files, only the file of 5,368,709,120 bytes", "Download it first"),
)


@pytest.fixture
def url(server) -> str:
    server.files["/m/model.safetensors"] = builders.safetensors_bytes(TENSORS)
    return f"{server.url}/m/model.safetensors"


@pytest.mark.parametrize("wrong", FATAL, ids=lambda wrong: wrong.fault)
def test_opening_says_what_is_wrong(wrong: Wrong, server, url: str) -> None:
    server.misbehave(wrong.fault)
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(url)
    assert wrong.says in caught.value.message
    assert url in caught.value.message
    assert wrong.fix in (caught.value.fix or "")


def test_a_file_that_is_not_there(server) -> None:
    with pytest.raises(CheckpointError, match=r"has no such file \(404\)"):
        open_checkpoint(f"{server.url}/m/model.safetensors")


@pytest.mark.parametrize("fault", ["429", "503", "short", "dropped"])
def test_what_passes_is_tried_again(fault: str, server, url: str) -> None:
    server.misbehave(fault, times=2)
    with open_checkpoint(url) as source:
        assert stored(source) == {key: value.tobytes() for key, value in TENSORS.items()}
    assert server.requests_of("model.safetensors") >= 3


def test_a_request_that_was_tried_again_keeps_no_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blob, "FIRST_PAUSE", 0.0)
    answers = [Answer(), Fault("is overloaded", retry=True)]
    fetched = weakref.ref(answers[0])

    def work() -> object:
        answer = answers.pop()
        if isinstance(answer, Fault):
            raise answer
        return answer

    gc.disable()  # bytes are few objects: nobody collects cycles of them in time
    try:
        blob.tried("http://host/file", work)
        end = time.monotonic() + 60
        while fetched() is not None and time.monotonic() < end:
            time.sleep(0.01)
        assert fetched() is None
    finally:
        gc.enable()


def test_a_fault_while_reading_names_the_bytes(server, url: str) -> None:
    with open_checkpoint(url) as source:
        server.misbehave("503")
        with pytest.raises(
            CheckpointError, match=r"cannot be read \(bytes [\d,]+ to [\d,]+\): the server is overloaded"
        ):
            source.read(source.refs[0])


def test_a_file_that_changed_is_refused(server, url: str) -> None:
    with open_checkpoint(url) as source:
        other = {**TENSORS, "b.weight": np.full((8, 3), 9, np.float32)}
        server.files["/m/model.safetensors"] = builders.safetensors_bytes(other)
        with pytest.raises(CheckpointError, match="another file there now than the one that was opened") as caught:
            source.read(source.refs[0])
        assert caught.value.code == "damaged"
        assert "Open it again" in (caught.value.fix or "")
        with pytest.raises(CheckpointError, match="changed since it was opened"):
            source.readers["model.safetensors"].check_unchanged()  # type: ignore[attr-defined]


def test_identity_tells_one_state_from_another(server, url: str) -> None:
    with open_checkpoint(url) as one, open_checkpoint(url) as same:
        assert one.files[0].identity == same.files[0].identity != ()
    server.files["/m/model.safetensors"] += b"\0"
    with open_checkpoint(url) as other:
        assert other.files[0].identity != one.files[0].identity


def test_a_small_file_from_a_server_without_ranges(server, url: str) -> None:
    server.misbehave("whole")
    with open_checkpoint(url) as source:
        assert stored(source) == {key: value.tobytes() for key, value in TENSORS.items()}


def test_a_slow_server_is_given_up(server, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "TIMEOUT", 0.2)
    monkeypatch.setattr(blob, "TRIES", 2)
    server.misbehave("silent")
    with pytest.raises(CheckpointError, match="did not answer in time"):
        open_checkpoint(url)


def test_a_server_that_sends_drop_by_drop_is_given_up(server, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_answers, "PATIENCE", -1.0)
    monkeypatch.setattr(http_answers, "LEAST_SPEED", 1 << 60)
    with pytest.raises(CheckpointError, match="sends too slowly"):
        open_checkpoint(url)


def test_nobody_listens() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    with pytest.raises(CheckpointError, match="nothing listens there"):
        open_checkpoint(f"http://127.0.0.1:{port}/model.safetensors")


def test_a_name_that_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(CheckpointError, match=r"its name is not known \(DNS\)"):
        open_checkpoint("https://nowhere.invalid/model.safetensors")


def test_a_pointer_of_git_lfs(server, url: str) -> None:
    server.files["/m/model.safetensors"] = builders.LFS_POINTER
    with pytest.raises(CheckpointError, match="Git LFS pointer") as caught:
        open_checkpoint(url)
    assert caught.value.code == "lfs-pointer"


def test_an_empty_file(server, url: str) -> None:
    server.files["/m/model.safetensors"] = b""
    with pytest.raises(CheckpointError, match=r"is empty \(0 bytes\)"):
        open_checkpoint(url)


def test_a_file_cut_short(server, url: str) -> None:
    server.files["/m/model.safetensors"] = server.files["/m/model.safetensors"][:60]
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(url)
    assert caught.value.code == "truncated"


def test_a_folder_that_asks_for_a_sign_in(server) -> None:
    server.misbehave("401", where="")
    with pytest.raises(CheckpointError, match=r"asks for a sign-in \(401\)"):
        open_checkpoint(f"{server.url}/m")


@pytest.mark.parametrize("fault", ["401", "403"])
def test_a_wrong_password_in_the_address_is_told_and_not_shown(server, url: str, fault: str) -> None:
    server.misbehave(fault)
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(url.replace("http://", "http://me:hunter2@"))
    assert f"refuses the name and password, or the signature, in the address ({fault})" in caught.value.message
    assert "hunter2" not in f"{caught.value.message} {caught.value.fix}"


def test_https_where_http_is_spoken(server, url: str) -> None:
    with pytest.raises(CheckpointError, match="does not speak https at this port") as caught:
        open_checkpoint(url.replace("http://", "https://"))
    assert "http://" in (caught.value.fix or "")


@pytest.mark.parametrize("fault", ["whole_large", "403", "503"])
def test_a_shard_that_the_server_refuses_is_not_lost(tmp_path: Path, server, serve, fault: str) -> None:
    save_shards(tmp_path / "m", state(), 3, config=config())
    url = serve(tmp_path / "m")
    server.misbehave(fault, where="model-00002-of-00003.safetensors")
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(f"{url}/model.safetensors.index.json")
    assert caught.value.code == "unreachable"
    assert "model-00002-of-00003.safetensors cannot be read" in caught.value.message


def test_the_file_that_was_named_is_named(tmp_path: Path, server, serve) -> None:
    save_shards(tmp_path / "m", state(), 3, config=config())
    url = serve(tmp_path / "m")
    server.misbehave("401", where="")
    with pytest.raises(CheckpointError, match=r"model\.safetensors\.index\.json cannot be read"):
        open_checkpoint(f"{url}/model.safetensors.index.json")


def test_a_server_that_is_started_again_is_waited_for(server, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real, left = http.HttpStore._request, [0]

    def refused(self: object, *args: object, **options: object) -> object:
        if left[0]:
            left[0] -= 1
            raise http_answers.lost(ConnectionRefusedError())
        return real(self, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(http.HttpStore, "_request", refused)
    monkeypatch.setattr(blob, "FIRST_PAUSE", 0.0)
    with open_checkpoint(url) as source:
        left[0] = 3
        assert source.read(source.refs[0]) == TENSORS["a.weight"].tobytes()
        assert left == [0]
    left[0] = 1
    with pytest.raises(CheckpointError, match="refuses the connection"):
        open_checkpoint(url)


def test_a_signed_redirect_that_ran_out_is_asked_for_anew(server, url: str) -> None:
    data = server.files["/m/model.safetensors"]
    server.files["/cdn/1"], server.files["/cdn/2"] = data, data
    leads = iter(("/cdn/1", "/cdn/2"))
    from tests.core.remote.server import Handler

    def wrong_moved(self: Handler, _: str) -> bool:
        self.answer(302, b"", {"Location": next(leads)})
        return True

    Handler.wrong_moved = wrong_moved  # type: ignore[attr-defined]
    server.misbehave("moved")
    with open_checkpoint(url) as source:
        del server.files["/cdn/1"]
        assert source.read(source.refs[0]) == TENSORS["a.weight"].tobytes()
    assert [path for path, _ in server.asked if path.endswith(".safetensors")] == ["/m/model.safetensors"] * 2
