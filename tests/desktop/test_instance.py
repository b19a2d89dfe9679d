"""A second start hands over what it was asked for, and falls back to a window of its own whenever that is not safe."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ckpt_gui.desktop import instance
from ckpt_gui.desktop.instance import Request, address, decode, hand_over

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="sockets in folders")
REQUEST = Request(("/m/a.pt", "s3://b/c"), select="w", filter="dtype:bf16", view="plots", new_window=True, token="t")


@contextmanager
def listening(where: Path, answer: bytes) -> Iterator[list[bytes]]:
    """Take one guest, keep what it says, and answer."""
    heard: list[bytes] = []
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(where))
        server.listen()
        server.settimeout(10)

        def take() -> None:
            line, _ = server.accept()
            with line:
                heard.append(line.recv(instance.LONGEST))
                with contextlib.suppress(BrokenPipeError):  # the guest may have left
                    line.sendall(answer)

        thread = threading.Thread(target=take)
        thread.start()
        yield heard
        thread.join()


def test_a_request_comes_through_whole(tmp_path: Path) -> None:
    with listening(tmp_path / "s", b"taken\n") as heard:
        assert hand_over(str(tmp_path / "s"), REQUEST)
    assert decode(heard[0]) == REQUEST


@pytest.mark.parametrize("answer", [b"", b"no\n", b"take"])
def test_who_does_not_take_it_is_not_relied_on(tmp_path: Path, answer: bytes) -> None:
    with listening(tmp_path / "s", answer):
        assert not hand_over(str(tmp_path / "s"), REQUEST)


def test_nobody_there(tmp_path: Path) -> None:
    assert not hand_over("", REQUEST)
    assert not hand_over(str(tmp_path / "s"), REQUEST)
    (tmp_path / "file").write_text("no socket")
    assert not hand_over(str(tmp_path / "file"), REQUEST)
    with socket.socket(socket.AF_UNIX) as dead:  # left by a process that was killed
        dead.bind(str(tmp_path / "dead"))
    assert not hand_over(str(tmp_path / "dead"), REQUEST)


def test_one_who_hangs_is_waited_for_only_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instance, "PATIENCE", 0.1)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        server.listen()
        assert not hand_over(str(tmp_path / "s"), REQUEST)


def test_another_user_is_not_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not hasattr(socket, "SO_PEERCRED"):
        pytest.skip("this system does not tell who is at the other end")
    monkeypatch.setattr(os, "getuid", lambda: 4321)
    with listening(tmp_path / "s", b"taken\n") as heard:
        assert not hand_over(str(tmp_path / "s"), REQUEST)
    assert heard == [b""], "nothing was said"


@pytest.mark.parametrize(
    "line",
    [
        b"", b"[]", b"{", b"1", b'{"version": 2, "paths": []}', b'{"version": 1}', b'{"version": 1, "paths": [1]}',
        b'{"version": 1, "paths": [], "run": "rm"}', b'{"version": 1, "paths": [], "view": 5}',
        b'{"version": 1, "paths": [], "new_window": "yes"}', b"\xff\xfe",
        json.dumps({"version": 1, "paths": ["x"] * 10_001}).encode(),
    ],
)  # fmt: skip
def test_what_is_no_request_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        decode(line)


def test_what_is_too_much_is_not_even_sent(tmp_path: Path) -> None:
    assert not hand_over(str(tmp_path / "s"), Request(("x" * instance.LONGEST,)))


def test_the_place_is_private_and_belongs_to_the_screen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o700)
    run = {"XDG_RUNTIME_DIR": str(tmp_path)}
    if len(os.fsencode(str(tmp_path))) < 60:
        assert address(run | {"DISPLAY": ":0"}).startswith(str(tmp_path) + os.sep)
    assert address(run | {"DISPLAY": ":0"}) != address(run | {"DISPLAY": ":1"}) or not address(run)
    tmp_path.chmod(0o755)  # others may look in: not there
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    found = instance._private_folder(run)
    assert found == tmp_path / f"ckpt-gui-{os.getuid()}"
    assert found.stat().st_mode & 0o777 == 0o700
    found.rmdir()
    found.symlink_to(tmp_path)
    assert instance._private_folder(run) is None, "a link that somebody else may have put there"
