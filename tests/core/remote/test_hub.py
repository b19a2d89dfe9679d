"""`hf://` through the hub's own client, against a hub on loopback that knows one model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import sha1, sha256
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.formats import open_checkpoint
from tests.core.models import config, save_shards, state, stored
from tests.core.remote.server import Handler, Server

hub = pytest.importorskip("huggingface_hub")
SHA = "a" * 40


class HubHandler(Handler):
    """The few addresses of the hub that its filesystem asks for."""

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        path = unquote(parts.path)
        with self.server.lock:
            self.server.asked.append((path, self.headers.get("Range", "")))
            self.server.logins.append((path, self.headers.get("Authorization")))
        model = "/api/models/org/model"
        if path.startswith(model):
            rest = path.removeprefix(model)
            if rest.startswith("/tree/"):
                self.tree()
            else:
                self.as_json({"_id": "1", "id": "org/model", "sha": SHA, "siblings": []})
        elif path.startswith("/org/model/resolve/"):
            name = path.split("/", 5)[5]
            data = self.server.files.get(f"/m/{name}")
            self.serve(data) if data is not None else self.nothing("EntryNotFound")
        else:
            self.nothing("RepoNotFound")

    do_HEAD = do_GET

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        from urllib.parse import parse_qs

        text = body.decode()
        paths = json.loads(text)["paths"] if text.startswith("{") else parse_qs(text).get("paths", [])
        with self.server.lock:
            self.server.asked.append((self.path, ""))
        found = [self.entry(name) for name in paths if f"/m/{name}" in self.server.files]
        self.as_json(found)

    def entry(self, name: str) -> dict[str, object]:
        data = self.server.files[f"/m/{name}"]
        entry: dict[str, object] = {"type": "file", "path": name, "size": len(data), "oid": sha1(data).hexdigest()}
        if name.endswith(".safetensors"):
            entry["lfs"] = {"oid": sha256(data).hexdigest(), "size": len(data), "pointerSize": 130}
        return entry

    def tree(self) -> None:
        self.as_json([self.entry(path.removeprefix("/m/")) for path in sorted(self.server.files)])

    def as_json(self, value: object) -> None:
        self.answer(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def nothing(self, code: str) -> None:
        self.answer(404, b"{}", {"X-Error-Code": code, "Content-Type": "application/json"})


@pytest.fixture
def model(server: Server, serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:  # type: ignore[no-untyped-def]
    save_shards(tmp_path / "m", state(), 3, config=config())
    serve(tmp_path / "m")
    server.RequestHandlerClass = HubHandler
    from huggingface_hub import HfFileSystem, constants

    monkeypatch.setattr(constants, "ENDPOINT", server.url)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    template = f"{server.url}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setenv("HF_ENDPOINT", server.url)
    monkeypatch.setenv("HF_TOKEN", "hf_hush")
    HfFileSystem.clear_instance_cache()
    yield server
    HfFileSystem.clear_instance_cache()
    if hasattr(hub, "close_session"):
        hub.close_session()


def test_a_model_of_the_hub(model: Server, tmp_path: Path) -> None:
    with open_checkpoint("hf://org/model") as there, open_checkpoint(tmp_path / "m") as here:
        assert there.is_folder
        assert there.sidecars.config == config()
        shards = [path for path, _ in model.asked if path.endswith(".safetensors")]
        assert len(shards) == 3
        assert stored(there) == stored(here)
        assert all(file.identity for file in there.files)


def test_the_page_of_a_model_is_the_model(model: Server) -> None:
    with open_checkpoint("https://huggingface.co/org/model") as there:
        assert there.path == "hf://org/model"


def test_a_model_that_is_not_there(model: Server) -> None:
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint("hf://org/none")
    assert "hf://org/none" in caught.value.message
    assert "404" in caught.value.message or "no such file" in caught.value.message
    assert "hf_hush" not in caught.value.message
