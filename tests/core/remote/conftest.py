"""A server on loopback for each test, and no pauses between tries."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ckpt_gui.core.remote import address, blob
from ckpt_gui.core.remote.store import close_stores
from tests.core.remote.server import Server, serving


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """No proxy, no netrc and no secret of another test; no waiting between tries."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "none"))
    monkeypatch.setattr(address, "_SECRETS", {})
    monkeypatch.setattr(blob, "FIRST_PAUSE", 0.0)
    yield
    close_stores()


@pytest.fixture
def server() -> Iterator[Server]:
    """A server without files."""
    with serving() as made:
        yield made


@pytest.fixture
def serve(server: Server):  # type: ignore[no-untyped-def]
    """Put the files of a folder on the server, below /m; return the address of that folder."""

    def put(folder: Path, at: str = "/m") -> str:
        for path in folder.rglob("*"):
            if path.is_file():
                server.files[f"{at}/{path.relative_to(folder).as_posix()}"] = path.read_bytes()
        return f"{server.url}{at}"

    return put
