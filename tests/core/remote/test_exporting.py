"""An export from a server: large tensors are fetched, not copied by the system; jobs open the files themselves."""

from __future__ import annotations

import os
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from ckpt_gui.core import fill, plain_copy
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.export import Target
from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.formats.file_window import FileWindow
from ckpt_gui.core.formats.files import HeldFile
from ckpt_gui.core.normalise import understand
from ckpt_gui.core.remote.address import admit
from ckpt_gui.core.retarget import retarget
from ckpt_gui.core.writer import write_export
from tests.core import models


@pytest.mark.parametrize("jobs", [False, True])
def test_an_export_from_a_server(tmp_path: Path, serve, monkeypatch: pytest.MonkeyPatch, jobs: bool) -> None:
    for module in (fill, plain_copy):
        monkeypatch.setattr(module, "LARGE", 64)
    models.save(tmp_path / "in", models.state("hf"), config=models.config())
    with open_checkpoint(serve(tmp_path / "in")) as source, ThreadPoolExecutor(2) as pool:
        export = retarget(understand(source), Target("same"))
        write_export(export, tmp_path / "out", executor=pool if jobs else None)
    assert models.opened(tmp_path / "out") == models.as_bytes(models.state("hf"))


class _Elsewhere(Executor):
    """Stands for processes: whatever is handed to it is a fault."""

    def submit(self, *_args: object, **_options: object) -> Future[object]:  # type: ignore[override]
        raise AssertionError("a job left this process")


def test_an_address_with_a_secret_leaves_no_process(tmp_path: Path, serve) -> None:
    models.save(tmp_path / "in", models.state("hf"), config=models.config())
    address = admit(serve(tmp_path / "in").replace("http://", "http://me:hush@"))
    with open_checkpoint(address) as source:
        export = retarget(understand(source), Target("same"))
        with pytest.raises(CheckpointError, match="not sent to other processes") as caught:
            write_export(export, tmp_path / "out", executor=_Elsewhere())
    assert "hush" not in caught.value.message
    assert not (tmp_path / "out").exists()


@pytest.mark.skipif(not hasattr(os, "copy_file_range"), reason="the system copies nothing")
def test_a_window_is_copied_from_where_it_lies(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(range(100)))
    window = FileWindow(HeldFile(tmp_path / "a"), 30, 50)
    with (tmp_path / "b").open("wb") as out:
        if not window.copy_to(5, 10, out.fileno(), 2):
            pytest.skip("this file system copies nothing")
    assert (tmp_path / "b").read_bytes() == bytes(2) + bytes(range(35, 45))
