"""A file reaches the disk while it is written; the disk's failures are told, and nobody waits for it in vain."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ckpt_gui.core import flushing as module
from ckpt_gui.core.errors import Cancelled
from ckpt_gui.core.flushing import flushing
from ckpt_gui.core.meter import Meter


@pytest.fixture
def fd(tmp_path: Path) -> Iterator[int]:
    made = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    yield made
    os.close(made)


def test_it_is_on_the_disk_at_the_end(fd: int, monkeypatch: pytest.MonkeyPatch) -> None:
    real, sizes = os.fsync, []

    def sync(number: int) -> None:
        sizes.append(os.fstat(number).st_size)
        real(number)

    monkeypatch.setattr(os, "fsync", sync)
    with flushing(fd, Meter(8)):
        os.write(fd, b"written.")
    assert sizes[-1] == 8


@pytest.mark.skipif(not hasattr(os, "fdatasync"), reason="the system has no such call")
def test_it_is_asked_for_meanwhile(fd: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = threading.Event()
    monkeypatch.setattr(module, "EVERY", 0.001)
    monkeypatch.setattr(os, "fdatasync", lambda _: asked.set())
    with flushing(fd, Meter(8)):
        assert asked.wait(60)


def test_a_cancel_is_heard_while_the_disk_is_waited_for(fd: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow disk: it is done with the file only once that is empty."""

    def sync(number: int) -> None:
        while os.fstat(number).st_size:
            threading.Event().wait(0.001)

    monkeypatch.setattr(os, "fsync", sync)
    with pytest.raises(Cancelled), flushing(fd, Meter(8, cancelled=lambda: True)):
        os.write(fd, b"not wanted")
    assert os.fstat(fd).st_size == 0


def test_a_failing_disk_stops_the_work_and_is_told(fd: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(module, "EVERY", 0.001)
    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, name, fail, raising=False)
    meter = Meter(8)

    def work_without_end() -> None:
        with flushing(fd, meter):
            while True:
                meter.add("Writing", 0)

    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        work_without_end()


def test_the_first_failure_is_told(fd: int) -> None:
    with pytest.raises(ZeroDivisionError), flushing(fd, Meter(8)):
        raise ZeroDivisionError
