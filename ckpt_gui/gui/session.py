"""What the window is about: one opened checkpoint, the user's decisions, and the snapshot that follows from them.

Widgets hold no facts. They show the session's `Snapshot` and call its methods; a change makes a new snapshot, and
`changed` tells everybody. Decisions are undoable values (a policy and a target), never edits of files.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from ckpt_gui.core.diff import Row
from ckpt_gui.core.errors import Cancelled, CheckpointError, Finding
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.plan import Evidence
from ckpt_gui.core.remote.address import admit
from ckpt_gui.core.tensors import TensorRef
from ckpt_gui.core.tree import CheckpointIndex
from ckpt_gui.gui.deciding import Deciding
from ckpt_gui.gui.decisions import Decisions, taken_again
from ckpt_gui.gui.jobs import Job, JobManager
from ckpt_gui.gui.letting_go import LettingGo
from ckpt_gui.gui.open_adapters import OpenAdapters
from ckpt_gui.gui.planning import Planning
from ckpt_gui.gui.reference import Reference
from ckpt_gui.gui.snapshot import Opening, Snapshot, make_snapshot, open_snapshot, with_preview
from ckpt_gui.gui.undo import Decision


class Session(Deciding):
    """One checkpoint in one window.

    Attributes:
        jobs: Where its long work runs.
        listing: The tensors of what is being opened, as soon as they are known, by an index at first, then by the
            headers; None before, and once it is open.
        path: What is open or being opened.
        current: The stored tensor that is selected in the tree, if any.
        reference: What the checkpoint is compared with.
        scan_findings: What a scan of the values has found.
        preview: Whether the tree shows what would be written, in place of the file.

    Signals:
        opening(path): Headers are being read.
        listed(index): The tensors of a large checkpoint are known, and not what they are: `changed` comes later. It
            comes twice where an index tells of them before the headers do.
        changed(snapshot): There is a new snapshot.
        failed(error): The checkpoint could not be opened.
        closed(): There is none any more.
        refused(error): A decision could not be followed; the old snapshot stands.
        keys_wanted(keys, title), key_wanted(key): The user wants to see tensors in the tree.
        current_changed(ref): Another stored tensor is selected in the tree; None if none is.
        scanned(): There are other findings of a scan, or none any more.
    """

    opening = Signal(str)
    listed = Signal(object)
    changed = Signal(object)
    failed = Signal(object)
    closed = Signal()
    refused = Signal(object)
    keys_wanted = Signal(object, str)
    key_wanted = Signal(str)
    current_changed = Signal(object)
    scanned = Signal()

    def __init__(self, jobs: JobManager, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.jobs = jobs
        self.listing: CheckpointIndex | None = None
        self.path: str | None = None
        self.current: TensorRef | None = None
        self.scan_findings: tuple[Finding, ...] = ()
        self._evidence = Evidence()
        self.preview = False
        self._job: Job | None = None
        self._planning = Planning(jobs, self._planned, self._refuse)
        self._kept: Decisions | None = None  # to be taken again once the same path is open anew
        self._adapter_wanted = ""
        self._layout = ""  # that an export goes to, where the user prefers one
        self._adapters = OpenAdapters(jobs)
        self._letting_go = LettingGo(jobs)
        self._behind: Snapshot | None = None  # that was open, and that panels show until they get another
        self.reference = Reference(jobs, self)
        self.reference.ended.connect(self._on_compared)

    def open(
        self,
        path: str | Path,
        *,
        config: str | Path | None = None,
        adapter: str = "",
        salvage: bool = False,
        take: str = "",
    ) -> None:
        """Open a checkpoint in a job; an open one is closed first.

        Args:
            path: The checkpoint.
            config: A config file of the user's.
            adapter: Merged into it once it is open.
            salvage: Whether only what is whole of a damaged file is wanted.
            take: Of several models in a folder, a file of the one that is wanted.
        """
        try:
            path = admit(str(path))  # from here on nothing knows what is secret in an address
        except CheckpointError as error:
            self.refused.emit(error)
            return
        old = self._let_go()
        self.path, self._adapter_wanted, self._kept = str(path), adapter, None
        how = Opening(str(config or ""), self._layout, salvage, take)
        self.opening.emit(self.path)  # and not `closed`: panels keep what they show until `changed` or `failed`
        self._close(old)

        def work(job: Job) -> Snapshot:
            return open_snapshot(path, how, job)

        title = f"Opening {safe_text(Path(path).name, 60)}"
        self._job = self.jobs.start(
            title, work, self._opened, self._failed, part=self._list, discard=_close, quiet=True
        )

    def prefer_layout(self, layout: str) -> None:
        """Let exports of what is opened from now on go to a layout; empty for the one that fits."""
        self._layout = layout

    def reopen(self, config: str | Path | None = None) -> None:
        """Open the same path anew, and take the same decisions again; with another config if one is named."""
        kept = self._kept if self.snapshot is None else self.decisions
        if self.path is not None:
            then = kept or Decisions()
            adapter = then.adapter.path if then.adapter else ""
            self.open(
                self.path, config=config or then.config or None, adapter=adapter, salvage=then.salvage, take=then.take
            )
            self._kept = kept

    def cancel_opening(self) -> None:
        """Stop opening."""
        self.jobs.cancel(self._job)

    def compare_with(self, name: str) -> None:
        """Compare the checkpoint with another, a config or a known model, in a job; empty: with its own layout."""
        if self.snapshot is None:
            return
        if name:
            self.reference.compare(self.snapshot, name)
        else:
            self.reference.forget()
            self.follow(self.decisions)

    def merge(self, path: str) -> None:
        """Open an adapter in a job, and decide that it be merged."""
        self._adapters.open(path, lambda choice: self.decide(adapter=choice), self.refused.emit)

    def set_preview(self, wanted: bool) -> None:
        """Let the tree show what would be written; or the file again."""
        if wanted == self.preview or self.snapshot is None:
            return
        self.preview = wanted
        if self._wanted is not None:
            self.follow(self._wanted)
        else:
            self._planning.start(partial(with_preview, self.snapshot, wanted), len(self.snapshot.source.refs))

    def publish(self, snapshot: Snapshot) -> None:
        """Show a snapshot."""
        old, self.snapshot, self._wanted = self.snapshot, snapshot, None
        listing, self.listing = self.listing, None
        self.path = self.path or snapshot.source.path
        self._evidence = snapshot.plan.evidence
        self.changed.emit(snapshot)
        self._letting_go.take(old, listing, self._behind)
        self._behind = None
        if old and old.source is not snapshot.source:
            self._close(old)
        if self.reference.name and snapshot.beside is None and not self.reference.running:
            self.reference.compare(snapshot, self.reference.name)

    def close(self) -> None:
        """Close the checkpoint, and stop opening one."""
        was_open = self.snapshot is not None or self._job is not None
        old = self._let_go()
        if was_open:
            self.closed.emit()  # before the files are closed: whoever still reads from them stops now
        self._close(old)
        self._forget_behind()

    def show_keys(self, keys: Iterable[str], title: str) -> None:
        """Lead the user to some tensors, by their full keys; the title says what they have in common."""
        self.keys_wanted.emit(tuple(keys), title)

    def show_key(self, key: str) -> None:
        """Lead the user to a tensor, by its full key."""
        self.key_wanted.emit(key)

    def select(self, row: Row | None) -> None:
        """Take note of what is selected in the tree."""
        ref = row.ref if row is not None and self.snapshot is not None else None
        if ref is not self.current:
            self.current = ref
            self.current_changed.emit(ref)

    def tell_scan(self, findings: tuple[Finding, ...]) -> None:
        """Take note of what a scan of the values has found."""
        if findings != self.scan_findings:
            self.scan_findings = findings
            self.scanned.emit()

    def follow(self, decisions: Decisions) -> bool:
        """Publish what follows from decisions; in a job if the checkpoint is large. Return False if it is refused."""
        if self.snapshot is None:
            return False
        self._wanted = decisions
        source, beside = self.snapshot.source, self.reference.beside(decisions)
        make = partial(make_snapshot, source, decisions, self._evidence, beside, preview=self.preview)
        return self._planning.start(make, len(source.refs))

    def _let_go(self) -> Snapshot | None:
        """Forget what is open, and return it: its files are closed once the panels have heard."""
        self.jobs.cancel(self._job, silently=True)
        self._planning.stop()
        self.reference.forget()
        self._letting_go.take(self.listing)
        self._job = self._wanted = self.listing = None
        self.preview = False
        snapshot, self.snapshot = self.snapshot, None
        self._behind = snapshot or self._behind
        self._evidence = Evidence()
        self.path = self.current = None
        self.undo_stack.clear()
        self._adapters.close()
        return snapshot

    def _close(self, snapshot: Snapshot | None) -> None:
        """Close the files of a snapshot as soon as no export reads from them any more."""
        if snapshot is not None:
            self.jobs.once_unused(snapshot.source, snapshot.source.close)

    def _refuse(self, error: BaseException) -> None:
        """Take the decision that could not be followed off the undo stack; what is shown stands."""
        refused, self._wanted = self._wanted, None
        stack = self.undo_stack
        last = stack.command(stack.index() - 1)
        if isinstance(last, Decision) and last.new == refused:
            old = last.old
            last.setObsolete(True)
            stack.undo()  # deletes what is obsolete, without a call
            if old != self.decisions:  # taken before this one, and not followed yet
                self.follow(old)
        if not isinstance(error, Cancelled):
            self.refused.emit(error)

    def _planned(self, snapshot: Snapshot) -> None:
        if self.snapshot and snapshot.source is self.snapshot.source:
            self.publish(snapshot)

    def _list(self, index: CheckpointIndex) -> None:
        old, self.listing = self.listing, index
        self.listed.emit(index)
        self._letting_go.take(old)

    def _opened(self, snapshot: Snapshot) -> None:
        self._job = None
        before, self._first = self._first, snapshot.decisions
        self.publish(snapshot)
        kept, self._kept = self._kept, None
        if kept is not None:
            self._push(taken_again(kept, before, self.decisions))
        if self._adapter_wanted:
            self.merge(self._adapter_wanted)

    def _on_compared(self, error: BaseException | None) -> None:
        if error is None:
            self.follow(self.decisions)

    def _failed(self, error: BaseException) -> None:
        self._letting_go.take(self.listing)
        self._job = self.listing = None
        if isinstance(error, Cancelled):
            self.path = None
            self.closed.emit()
        else:
            self.failed.emit(error)
        self._forget_behind()

    def _forget_behind(self) -> None:
        """Free what was open, now that no panel shows it any more."""
        self._letting_go.take(self._behind)
        self._behind = None


def _close(snapshot: Snapshot | None) -> None:
    if snapshot is not None:
        snapshot.source.close()
