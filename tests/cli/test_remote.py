"""Addresses on the command line: the same commands, and nothing secret in what they say and write."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ckpt_gui.cli.main import main
from tests.core.models import config, opened, save_shards, state
from tests.core.remote.conftest import _alone, serve, server  # noqa: F401
from tests.core.remote.server import Server


@pytest.fixture
def url(server: Server, serve, tmp_path: Path) -> str:  # type: ignore[no-untyped-def]  # noqa: F811
    """A model of three shards on a server, with a tokenizer; the address has a password."""
    save_shards(tmp_path / "m", state(), 3, config=config())
    (tmp_path / "m" / "tokenizer.json").write_text("{}")
    return serve(tmp_path / "m").replace("http://", "http://me:hush@")


def test_check(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "r.json"
    status = main(["check", url, "--json", str(report)])
    text = report.read_text() + "".join(capsys.readouterr())
    assert status in (0, 1)
    assert "hush" not in text
    assert url.replace("me:hush@", "") in json.dumps(json.loads(report.read_text()))


def test_fix_writes_what_a_local_copy_gives(url: str, server: Server, tmp_path: Path) -> None:  # noqa: F811
    assert main(["fix", url, "-o", str(tmp_path / "there")]) in (0, 1)
    assert main(["fix", str(tmp_path / "m"), "-o", str(tmp_path / "here")]) in (0, 1)
    assert opened(tmp_path / "there") == opened(tmp_path / "here")
    assert (tmp_path / "there" / "tokenizer.json").read_text() == "{}"
    assert "hush" not in (tmp_path / "there" / "EXPORT_REPORT.json").read_text()
    assert all(login for path, login in server.logins if path.endswith(".safetensors"))


def test_diff_and_stats(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", url, str(tmp_path / "m"), "--values"]) == 0
    assert main(["stats", url, "model.norm.weight"]) == 0
    assert "hush" not in "".join(capsys.readouterr())


def test_an_error_hides_the_password(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", f"{url}/nothing.safetensors"]) == 2
    said = "".join(capsys.readouterr())
    assert "hush" not in said
    assert "has no such file (404)" in said


def test_a_target_is_no_address(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str],
                                monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert main(["fix", url, "-o", "s3://bucket/out"]) == 1
    assert "s3://bucket/out is an address" in "".join(capsys.readouterr())
    assert not (tmp_path / "s3:").exists()
