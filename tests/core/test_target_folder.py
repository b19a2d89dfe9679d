"""Where an export may go, and how it gets there."""

from __future__ import annotations

import os
from collections import namedtuple
from pathlib import Path

import pytest

from ckpt_gui.core import target_folder
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.source import Source
from ckpt_gui.core.target_folder import PREFIX, SUFFIX, check_target, commit, folder_number, staged
from tests.core import models

Usage = namedtuple("Usage", "total used free")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return models.save(tmp_path / "source", models.state("hf"), config=models.config())


@pytest.fixture
def source(folder: Path) -> Source:
    with open_checkpoint(folder) as opened:
        return opened


def refused(target: Path, source: Source, *, overwrite: bool = False, nbytes: int = 0) -> str:
    with pytest.raises(CheckpointError) as caught:
        check_target(target, source, overwrite=overwrite, nbytes=nbytes)
    assert caught.value.code == "target-refused"
    assert caught.value.fix
    return caught.value.message


@pytest.mark.case(91)
@pytest.mark.parametrize("overwrite", [False, True])
def test_source_and_target_may_not_touch(tmp_path: Path, folder: Path, source: Source, overwrite: bool) -> None:
    link = tmp_path / "link"
    link.symlink_to(folder)
    below = tmp_path / "below"
    below.symlink_to(tmp_path)
    for target, word in (
        (folder, "is the source"),
        (tmp_path / "." / "x" / ".." / "source", "is the source"),
        (folder / "out", "lies inside"),
        (folder / "a" / "b", "lies inside"),
        (tmp_path, "holds"),
        (below / "source", "is the source"),
        (below / "source" / "out", "lies inside"),
        (link / "out", "lies inside"),
    ):
        assert word in refused(target, source, overwrite=overwrite)
    assert "symbolic link" in refused(link, source, overwrite=overwrite)


def test_a_single_file_may_have_its_export_beside_it(tmp_path: Path, folder: Path) -> None:
    with open_checkpoint(folder / "model.safetensors") as source:
        check_target(folder / "out", source, overwrite=False, nbytes=0)
        assert "holds" in refused(folder, source, overwrite=True)
        assert "file, not a folder" in refused(folder / "model.safetensors", source)
    index = models.save_shards(tmp_path / "shards", models.state("hf"), 3) / "model.safetensors.index.json"
    with open_checkpoint(index) as source:
        assert "holds" in refused(tmp_path / "shards", source, overwrite=True)


@pytest.mark.case(91)
def test_a_hard_link_to_the_source_is_the_source(tmp_path: Path, folder: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    os.link(folder / "model.safetensors", other / "model.safetensors")
    with open_checkpoint(folder / "model.safetensors") as source:
        assert "file, not a folder" in refused(other / "model.safetensors", source)


@pytest.mark.case(93)
def test_what_stands_there(tmp_path: Path, source: Source) -> None:
    file, empty, full = (tmp_path / name for name in ("file", "empty", "full"))
    file.write_text("x")
    empty.mkdir()
    full.mkdir()
    (full / "x").write_text("x")
    assert "is a file" in refused(file, source)
    check_target(empty, source, overwrite=False, nbytes=0)
    check_target(tmp_path / "new" / "deep", source, overwrite=False, nbytes=0)
    message = refused(full, source)
    assert message.endswith("is not empty: it holds 1 file.")
    check_target(full, source, overwrite=True, nbytes=0)
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    assert "symbolic link" in refused(tmp_path / "dangling", source)
    assert "is a file" in refused(file / "below", source)


@pytest.mark.case(93)
@pytest.mark.parametrize("name", [".git", "Documents", "original"])
def test_folders_in_a_target_are_not_deleted(tmp_path: Path, source: Source, name: str) -> None:
    home = tmp_path / "home"
    (home / name).mkdir(parents=True)
    check_target(home, source, overwrite=True, nbytes=0)  # nothing would be lost
    (home / name / "thesis.txt").write_text("years")
    message = refused(home, source, overwrite=True)
    assert f"`{name}`" in message
    assert "would delete" in message
    (home / "link").symlink_to(tmp_path)
    assert "link" not in refused(home, source, overwrite=True)


@pytest.mark.case(93, 94)
def test_room(tmp_path: Path, source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: Usage(10**9, 0, 50_000_000))
    check_target(tmp_path / "out", source, overwrite=False, nbytes=1000)
    message = refused(tmp_path / "out", source, nbytes=60_000_000)
    assert "73.2 MiB are needed" in message
    assert "47.7 MiB are free" in message
    monkeypatch.setattr("os.access", lambda *_: False)
    assert "may not be written" in refused(tmp_path / "out", source)


def test_names_are_shown_safely(tmp_path: Path, source: Source) -> None:
    bad = tmp_path / "a\x1b[31m\u202e"
    bad.write_text("x")
    message = refused(bad, source)
    assert "\x1b" not in message
    assert "\u202e" not in message


def test_staged_is_removed_when_it_fails(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "out"

    def fail() -> None:
        with staged(target) as part:
            (part / "x").write_text("x")
            assert part.parent == target.parent
            assert part.name.startswith(PREFIX)
            assert part.name.endswith(SUFFIX)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("exchange", [True, False])
@pytest.mark.parametrize("before", [None, (), ("old",)])
def test_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exchange: bool, before: tuple[str, ...] | None
) -> None:
    if not exchange:
        monkeypatch.setattr(target_folder, "_exchange", lambda *_: False)
    target = tmp_path / "out"
    if before is not None:
        target.mkdir()
        for name in before:
            (target / name).write_text("old")
    seen = folder_number(target)
    with staged(target) as part:
        (part / "new").write_text("new")
        commit(part, target, overwrite=True, seen=seen)
    assert os.listdir(target) == ["new"]
    assert os.listdir(tmp_path) == ["out"]


@pytest.mark.case(99)
def test_a_target_filled_meanwhile_is_kept(tmp_path: Path) -> None:
    target = tmp_path / "out"

    def put() -> None:
        with staged(target) as part:
            (part / "new").write_text("new")
            target.mkdir()
            (target / "theirs").write_text("x")
            commit(part, target, overwrite=False, seen=None)

    with pytest.raises(CheckpointError, match="meanwhile"):
        put()
    assert os.listdir(target) == ["theirs"]
    assert os.listdir(tmp_path) == ["out"]


@pytest.mark.case(99)
@pytest.mark.parametrize("before", [False, True])
def test_only_the_folder_that_was_seen_is_replaced(tmp_path: Path, before: bool) -> None:
    target = tmp_path / "out"
    if before:
        target.mkdir()
        (target / "old").write_text("old")
    seen = folder_number(target)

    def put() -> None:
        with staged(target) as part:
            (part / "new").write_text("new")
            with staged(target) as other:
                (other / "theirs").write_text("x")
                commit(other, target, overwrite=True, seen=seen)
            commit(part, target, overwrite=True, seen=seen)

    with pytest.raises(CheckpointError, match="put in place by another program meanwhile"):
        put()
    assert os.listdir(target) == ["theirs"]
    assert os.listdir(tmp_path) == ["out"]


def test_the_old_folder_comes_back_when_the_swap_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "out"
    target.mkdir()
    (target / "old").write_text("old")
    monkeypatch.setattr(target_folder, "_exchange", lambda *_: False)
    real = os.rename

    def rename(a: Path, b: Path) -> None:
        if Path(b) == target and Path(a).name.endswith(SUFFIX) and "-old" not in Path(a).name:
            raise OSError("no")
        real(a, b)

    monkeypatch.setattr(os, "rename", rename)

    def swap() -> None:
        with staged(target) as part:
            (part / "new").write_text("new")
            commit(part, target, overwrite=True, seen=folder_number(target))

    with pytest.raises(OSError, match="no"):
        swap()
    assert os.listdir(target) == ["old"]
    assert os.listdir(tmp_path) == ["out"]
