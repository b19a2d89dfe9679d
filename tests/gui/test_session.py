"""The session: what is told in which order, and what stays on the undo stack."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.export import GB, Target
from ckpt_gui.core.policy import Policy
from ckpt_gui.gui import planning as planning_module
from ckpt_gui.gui import session as session_module
from ckpt_gui.gui.decisions import Decisions, decision_words
from ckpt_gui.gui.jobs import JobManager
from ckpt_gui.gui.session import Session
from ckpt_gui.gui.snapshot import make_snapshot
from tests.gui.checkpoints import source
from tests.gui.windows import snapshot_of


@pytest.fixture
def session(qapp: QApplication) -> Iterator[Session]:
    jobs = JobManager()
    made = Session(jobs)
    made.publish(snapshot_of(source()))
    yield made
    made.close()
    jobs.shutdown()


def refuse(monkeypatch: pytest.MonkeyPatch, *dtypes: str) -> None:
    """Let decisions for some types fail."""

    def sometimes(src: Any, decisions: Decisions, *more: Any, **flags: Any) -> Any:
        if decisions.target.dtype in dtypes:
            raise CheckpointError("target-refused", "No.")
        return make_snapshot(src, decisions, *more, **flags)

    monkeypatch.setattr(session_module, "make_snapshot", sometimes)


def test_closed_is_told_before_the_files_are_closed(session: Session) -> None:
    assert session.snapshot is not None
    reader = session.snapshot.source.readers["w.pt"]
    seen: list[bool] = []
    session.closed.connect(lambda: seen.append(reader.closed))  # type: ignore[attr-defined]
    session.close()
    assert seen == [False]
    assert reader.closed  # type: ignore[attr-defined]


def test_a_new_source_is_told_before_the_old_one_is_closed(session: Session) -> None:
    assert session.snapshot is not None
    reader = session.snapshot.source.readers["w.pt"]
    seen: list[bool] = []
    session.changed.connect(lambda _: seen.append(reader.closed))  # type: ignore[attr-defined]
    session.publish(snapshot_of(source()))
    assert seen == [False]
    assert reader.closed  # type: ignore[attr-defined]


@pytest.mark.parametrize("in_a_job", [False, True])
def test_a_refused_decision_leaves_the_undo_stack(
    session: Session, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, in_a_job: bool
) -> None:
    refuse(monkeypatch, "fp16")
    session.change_target(dtype="bf16")
    if in_a_job:
        monkeypatch.setattr(planning_module, "MANY", 0)
    with qtbot.waitSignal(session.refused):
        session.change_target(dtype="fp16")
    assert session.undo_stack.count() == 1
    assert session.undo_stack.undoText() == "cast to bf16"
    assert session.decisions.target.dtype == "bf16"
    with qtbot.waitSignal(session.changed):
        session.undo_stack.undo()
    assert session.decisions.target.dtype == "keep"


def test_a_decision_before_the_refused_one_is_followed_all_the_same(
    session: Session, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse(monkeypatch, "fp16")
    monkeypatch.setattr(planning_module, "MANY", 0)
    with qtbot.waitSignal(session.changed):
        session.change_target(layout="torchtune")  # stopped by the next one before it is worked out
        session.change_target(dtype="fp16")
    assert session.snapshot is not None
    assert session.snapshot.decisions == Decisions(target=Target(layout="torchtune"))
    assert session.undo_stack.count() == 1


def test_undo_says_what_it_undoes() -> None:
    none = Decisions()
    for decisions, words in (
        (Decisions(target=Target("meta", container="torch")), "layout Meta"),
        (Decisions(target=Target("hf", max_shard_bytes=2 * GB)), "files of at most 2 GB"),
        (Decisions(target=Target("hf", max_shard_bytes=1 << 62)), "one file"),
        (Decisions(Policy(heads=4, kv_heads=2)), "head counts"),
        (Decisions(Policy(tie="copy")), "always write a head"),
        (Decisions(Policy(dropped=frozenset({"a", "b"}))), "leaving out 2 tensors"),
    ):
        assert decision_words(none, decisions) == words
        assert decision_words(decisions, none)


def test_reopening_tells_first_and_closes_then(session: Session, qtbot: QtBot, tmp_path: Path) -> None:
    assert session.snapshot is not None
    reader = session.snapshot.source.readers["w.pt"]
    seen: list[bool] = []
    session.opening.connect(lambda _: seen.append(reader.closed))  # type: ignore[attr-defined]
    with qtbot.waitSignal(session.failed):
        session.open(tmp_path / "absent.pt")
    assert seen == [False]
    assert reader.closed  # type: ignore[attr-defined]
