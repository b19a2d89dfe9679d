"""`ssh://` against a server of paramiko's on loopback, whose key must be known."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.formats import open_checkpoint
from tests import builders
from tests.core.models import config, save_shards, state, stored

paramiko = pytest.importorskip("paramiko")


class Door(paramiko.ServerInterface):
    """Lets in who knows the word."""

    def check_auth_password(self, username: str, password: str) -> int:
        good = (username, password) == ("me", "hush")
        return paramiko.AUTH_SUCCESSFUL if good else paramiko.AUTH_FAILED

    def get_allowed_auths(self, username: str) -> str:
        return "password"

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return paramiko.OPEN_SUCCEEDED


class Disk(paramiko.SFTPServerInterface):
    """Shows files of this machine."""

    def list_folder(self, path: str):  # type: ignore[no-untyped-def]
        made = []
        for name in os.listdir(path):
            attributes = paramiko.SFTPAttributes.from_stat(os.stat(os.path.join(path, name)), name)
            made.append(attributes)
        return made

    def stat(self, path: str):  # type: ignore[no-untyped-def]
        try:
            return paramiko.SFTPAttributes.from_stat(os.stat(path))
        except OSError as error:
            return paramiko.SFTPServer.convert_errno(error.errno)

    lstat = stat

    def open(self, path: str, flags: int, attr: object):  # type: ignore[no-untyped-def]
        handle = paramiko.SFTPHandle(flags)
        handle.readfile = open(path, "rb")  # noqa: SIM115 - closed by the handle
        return handle


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A server; its address, password included."""
    key = paramiko.RSAKey.generate(2048)
    listening = socket.create_server(("127.0.0.1", 0))
    transports: list[paramiko.Transport] = []

    def accept() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            transport = paramiko.Transport(connection)
            transports.append(transport)
            transport.add_server_key(key)
            transport.set_subsystem_handler("sftp", paramiko.SFTPServer, Disk)
            with contextlib.suppress(paramiko.SSHException, EOFError, OSError):  # a client that hangs up at once
                transport.start_server(server=Door())

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    port = listening.getsockname()[1]
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "known_hosts").write_text(f"[127.0.0.1]:{port} {key.get_name()} {key.get_base64()}\n")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    from ckpt_gui.core.remote.sftp import CheckedSftp

    CheckedSftp.clear_instance_cache()
    yield f"ssh://me:hush@127.0.0.1:{port}"
    for made in CheckedSftp._cache.values():
        made.client.close()
    CheckedSftp.clear_instance_cache()
    for transport in transports:
        transport.close()
    listening.shutdown(socket.SHUT_RDWR)
    listening.close()
    thread.join()


def test_a_folder_by_ssh(ssh: str, tmp_path: Path) -> None:
    save_shards(tmp_path / "m", state(), 3, config=config())
    with open_checkpoint(f"{ssh}{tmp_path}/m") as there, open_checkpoint(tmp_path / "m") as here:
        assert there.is_folder
        assert "hush" not in repr((there.path, there.files, there.sidecars))
        assert stored(there) == stored(here)


def test_a_large_read_asks_for_all_its_parts_at_once(ssh: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One after another, each of 256 parts would wait for a whole round trip."""
    values, waiting = np.arange(2 << 20, dtype=np.float32), []
    (tmp_path / "w.safetensors").write_bytes(builders.safetensors_bytes({"w": values}))
    ask = paramiko.SFTPClient._async_request

    def asked(client: paramiko.SFTPClient, *request: object) -> int:
        waiting.append(len(client._expecting))
        return ask(client, *request)

    with open_checkpoint(f"{ssh}{tmp_path}/w.safetensors") as there:
        monkeypatch.setattr(paramiko.SFTPClient, "_async_request", asked)
        assert there.read(there.refs[0]) == values.tobytes()
    assert max(waiting) > 8


def test_what_changed_by_ssh_is_refused(ssh: str, tmp_path: Path) -> None:
    values = np.arange(200_000, dtype=np.float32)
    place = tmp_path / "w.safetensors"
    place.write_bytes(builders.safetensors_bytes({"w": values}))
    with open_checkpoint(f"{ssh}{place}") as there:
        place.write_bytes(builders.safetensors_bytes({"w": values + 1}))
        os.utime(place, (1, 1))
        with pytest.raises(CheckpointError, match="another file there now"):
            there.read(there.refs[0], 500_000, 600_000)


def test_a_server_whose_key_is_not_known(ssh: str, tmp_path: Path) -> None:
    (tmp_path / "home" / ".ssh" / "known_hosts").write_text("")
    with pytest.raises(CheckpointError, match="does not let you in by SSH") as caught:
        open_checkpoint(f"{ssh}{tmp_path}/m")
    assert "Log in once with `ssh`" in (caught.value.fix or "")
    assert "hush" not in caught.value.message


def test_a_wrong_password(ssh: str, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="does not let you in by SSH"):
        open_checkpoint(f"{ssh.replace('hush', 'wrong')}{tmp_path}/m")
