"""A file on a server in the place of one on the disk: the readers of formats know no difference."""

from __future__ import annotations

from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.formats.file_errors import show_path
from ckpt_gui.core.formats.files import HeldFile
from ckpt_gui.core.remote.address import split
from ckpt_gui.core.remote.blob import Blob, identity_of
from ckpt_gui.core.remote.faults import CHANGED


class RemoteFile(HeldFile):
    """A file on a server, open for reading by ranges.

    Args:
        blob: The file.
    """

    __slots__ = ("_blob",)

    def __init__(self, blob: Blob) -> None:  # no descriptor is opened here
        """Keep the file."""
        self._blob = blob
        self.path, self.name, self.size = blob.url, split(blob.url)[1], blob.stat.size
        self.identity = blob.identity  # type: ignore[assignment]  # empty where the server tells nothing that changes

    def pread_into(self, offset: int, out: memoryview) -> None:
        """Fill `out` with the bytes from `offset` on.

        Raises:
            CheckpointError: The file is too short, changed, or cannot be read.
        """
        out = out.cast("B") if out.format != "B" or out.ndim != 1 else out
        if offset + len(out) > self.size:
            text = (
                f"{show_path(self.path)} ends at byte {self.size:,}, but bytes up to {offset + len(out):,} are needed."
            )
            raise CheckpointError("truncated", text, path=self.path, offset=self.size)
        if len(out):
            self._blob.read_into(offset, out)

    def next_data(self, offset: int, end: int) -> int:
        """Return `offset`: a server tells nothing of holes."""
        return offset

    def copy_to(self, offset: int, count: int, fd: int, place: int) -> int:
        """Copy nothing: the system knows only files of its own."""
        return 0

    def clone_to(self, offset: int, count: int, fd: int, place: int) -> bool:
        """Share nothing."""
        return False

    def check_unchanged(self) -> None:
        """Raise if the file on the server is not as it was when it was opened.

        Raises:
            CheckpointError: Somebody replaced or removed it, or the server fails.
        """
        now = self._blob.now()
        if now.size != self.size or identity_of(self.path, now) != self.identity:
            text = f"{show_path(self.path)} changed since it was opened; what was read before no longer holds."
            raise CheckpointError("damaged", text, fix=CHANGED, path=self.path)

    def close(self) -> None:
        """Let go of what is kept of it. Safe to call twice; reading fetches it again."""
        self._blob.close()

    def __del__(self) -> None:
        """Do nothing: no descriptor is held, and the blob looks after itself."""
