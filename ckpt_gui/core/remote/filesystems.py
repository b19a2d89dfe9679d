"""Files of every kind of server that fsspec has a filesystem for: object stores, the Hugging Face hub, SSH.

Credentials are the matter of those libraries alone (environment, ~/.aws, the hub's token, an ssh agent); none is asked
for or kept here. What they say when something fails may hold an address that is signed, so it is put into other words.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any
from urllib.parse import urlsplit

from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.remote.address import real_address, redacted
from ckpt_gui.core.remote.connections import TIMEOUT
from ckpt_gui.core.remote.faults import LATER, SIGN_IN, Fault, changed, of_status
from ckpt_gui.core.remote.store import Opened, Stat

INSTALL = 'Install what it needs: pip install "ckpt_gui[remote]".'
# Filesystems that read this machine, run programs, or stand for others: no servers.
_NO_SERVERS = frozenset(
    ("arrow_hdfs", "asynclocal", "blockcache", "cached", "data", "dir", "dirfs", "file", "filecache", "generic", "git",
     "libarchive", "local", "reference", "simplecache", "tar", "zip", "async_wrapper", "jlab", "jupyter", "dask",
     "worker", "root")
)  # fmt: skip
# Where another package than those of the extra is needed.
_PACKAGES = {"gs": "gcsfs", "gcs": "gcsfs", "abfs": "adlfs", "abfss": "adlfs", "az": "adlfs", "oss": "ossfs"}
# Fields of `info` that change when a file does, the best first.
_TAGS = ("ETag", "etag", "md5Hash", "generation", "blob_id", "VersionId", "LastModified", "last_modified", "mtime",
         "created")  # fmt: skip
# Whose handles read no other state of a file than the one they found, or which hand out one state only. With others
# the file is asked for again after each read: what is the same then was the same before.
_BINDING = frozenset(("s3", "s3a", "hf"))
_FEW = {"connect_timeout": 10, "read_timeout": TIMEOUT, "retries": {"max_attempts": 2}}
_OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "s3": {"config_kwargs": _FEW},
    "s3a": {"config_kwargs": _FEW},
    "ssh": {"timeout": TIMEOUT},
    "sftp": {"timeout": TIMEOUT},
}


class FsspecStore:
    """Reads files through a filesystem of fsspec.

    Args:
        root: Scheme and host of the server, such as `s3://bucket`.

    Raises:
        CheckpointError: There is no such filesystem, or its package is not installed.
    """

    lists = True

    def __init__(self, root: str) -> None:
        """Find the filesystem; it connects when it is first needed."""
        self._root = root
        self._class = _class_of(urlsplit(root).scheme)
        self._binds = urlsplit(root).scheme in _BINDING
        self._made: Any = None
        self._lock = threading.RLock()
        several = self._class.async_impl or urlsplit(root).scheme == "hf"
        self._turn: AbstractContextManager[Any] = nullcontext() if several else self._lock  # SFTP mixes up answers
        self._free: dict[tuple[str, Stat], list[Any]] = {}

    def open(self, url: str, head: int) -> Opened:
        """Return size and tag of a file; its bytes come with the first read."""
        with self._turn, _faults():
            info = self._info(url, fresh=head == 1)
        if info.get("type") == "directory":
            raise Fault("has a folder there, not a file", "Open the folder, or a file in it.", status=404)
        if info.get("size") is None:
            raise Fault("does not say how large the file is", "Download it first, and open the copy.")
        return Opened(Stat(int(info["size"]), _tag(info)), b"")

    def read(self, url: str, stat: Stat, start: int, end: int) -> bytes:
        """Return the bytes [start, end) of a file."""
        with self._turn, _faults():
            handle = self._take(url, stat)
            handle.seek(start)
            data: bytes = handle.read(end - start)
            self._give_back(url, stat, handle)
            if not self._binds:
                _check(self._info(url, fresh=True), stat)
        if len(data) != end - start:
            raise Fault(f"broke off after {len(data):,} of {end - start:,} bytes", retry=True)
        return data

    def is_folder(self, url: str) -> bool:
        """True if the address is that of a folder."""
        with self._turn, _faults():
            self._system().invalidate_cache()  # this is asked first, and what was listed before may be old
            return bool(self._system().isdir(self._path(url)))

    def names(self, url: str) -> dict[str, bool]:
        """Return the names in a folder, and for each whether it is a folder."""
        with self._turn, _faults():
            listed = self._system().ls(self._path(url), detail=True)
        own = self._path(url).rstrip("/")
        found = {str(e["name"]).rstrip("/").rpartition("/")[2]: e.get("type") == "directory" for e in listed}
        return {name: kind for name, kind in found.items() if name and f"{own}/{name}" != own}

    def _info(self, url: str, *, fresh: bool) -> dict[str, Any]:
        system, path = self._system(), self._path(url)
        if fresh:
            system.invalidate_cache(system._parent(path))
        info: dict[str, Any] = system.info(path)
        return info

    def _take(self, url: str, stat: Stat) -> Any:
        """Return a handle that nobody else uses: each has a place of its own, and remembers the file's ETag."""
        with self._lock:
            free = self._free.get((url, stat))
            if free:
                return free.pop()
        if self._class.protocol == "memory":
            return _Copy(self._system().open(self._path(url), "rb"))
        handle = self._system().open(self._path(url), "rb", cache_type="none")
        if self._binds:
            _check(handle.details, stat)
        return handle

    def _give_back(self, url: str, stat: Stat, handle: Any) -> None:
        with self._lock:
            self._free.setdefault((url, stat), []).append(handle)

    def forget(self, url: str, stat: Stat) -> None:
        """Close the handles of a file."""
        with self._lock:
            handles = self._free.pop((url, stat), [])
        for handle in handles:
            handle.close()

    def close(self) -> None:
        """Close all handles."""
        for url, stat in list(self._free):
            self.forget(url, stat)

    def _path(self, url: str) -> str:
        path: str = self._class._strip_protocol(real_address(url))
        return path

    def _system(self) -> Any:
        with self._lock:
            if self._made is None:
                scheme = urlsplit(self._root).scheme
                options = {**self._class._get_kwargs_from_urls(self._root), **_OPTIONS.get(scheme, {})}
                self._made = self._class(**options)
            return self._made


class _Copy:
    """The bytes of a file in memory: fsspec hands out the file itself, which has one place for all readers."""

    def __init__(self, file: Any) -> None:
        self._data = file.getbuffer()
        self._at = 0

    def seek(self, at: int) -> None:
        self._at = at

    def read(self, count: int) -> bytes:
        return bytes(self._data[self._at : self._at + count])

    def close(self) -> None:
        self._data.release()


def _class_of(scheme: str) -> Any:
    try:
        import fsspec
    except ImportError as error:
        text = f"Addresses that begin with {scheme}:// cannot be read: fsspec is not installed."
        raise CheckpointError("not-a-checkpoint", text, fix=INSTALL) from error
    from fsspec.registry import known_implementations, registry

    if scheme in _NO_SERVERS or scheme not in {*known_implementations, *registry}:
        text = f"Addresses that begin with {safe_text(scheme, 40)}:// cannot be read here."
        fix = "Read are hf://, s3://, gs://, https://, ssh:// and others that fsspec has; else download it first."
        raise CheckpointError("not-a-checkpoint", text, fix=fix)
    try:
        if scheme in ("ssh", "sftp"):
            from ckpt_gui.core.remote.sftp import CheckedSftp

            return CheckedSftp
        return fsspec.get_filesystem_class(scheme)
    except ImportError as error:
        package = _PACKAGES.get(scheme)
        missing = package or (error.name or "a package").partition(".")[0]
        text = f"Addresses that begin with {scheme}:// cannot be read: {missing} is not installed."
        fix = f"Install what it needs: pip install {package}." if package else INSTALL
        raise CheckpointError("not-a-checkpoint", text, fix=fix) from error


def _tag(info: Mapping[str, Any]) -> str:
    lfs = info.get("lfs")
    if lfs and lfs.get("sha256"):
        return str(lfs["sha256"])
    return next((str(info[name]) for name in _TAGS if info.get(name)), "")


def _check(info: Mapping[str, Any], stat: Stat) -> None:
    """Raise if a file is not the one that was opened."""
    if (int(info["size"]), _tag(info)) != stat:
        raise changed("its size, ETag or time is another")


class _faults:
    """Puts what a library raises into other words; every one has errors of its own."""

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        """Raise the fault in place of the error."""
        if isinstance(error, Exception) and not isinstance(error, (Fault, CheckpointError)):
            raise _fault_of(error) from None  # the error's own text may hold a signed address, and goes into no log


def _fault_of(error: Exception) -> Fault:
    name = type(error).__name__
    status = _status_of(error)
    if name in ("FileExpired",) or status == 412:
        return changed("its ETag is another")
    if status:
        return of_status(status)
    if isinstance(error, FileNotFoundError):
        return of_status(404)
    if isinstance(error, PermissionError) or name in ("NoCredentialsError", "PartialCredentialsError"):
        fault = of_status(403)
        return Fault(fault.what, f"{SIGN_IN} A public bucket of S3 opens with FSSPEC_S3_ANON=true.", status=403)
    if name in ("BadHostKeyException", "SSHException", "AuthenticationException"):
        what = f"does not let you in by SSH ({safe_text(_plain(error), 160)})"
        return Fault(what, "Log in once with `ssh`, so that its key is known and the agent has yours; then try again.")
    if isinstance(error, ConnectionRefusedError) or name == "NoValidConnectionsError":
        return Fault("refuses the connection: nothing listens there", restart=True)
    if isinstance(error, ValueError):
        return Fault(f"can not be asked for that ({safe_text(_plain(error), 160)})", "Look at the address.")
    if isinstance(error, (TimeoutError, ConnectionError)) or "Timeout" in name or "Connect" in name:
        return Fault(f"did not answer ({name})", retry=True)
    return Fault(f"failed ({name}: {safe_text(_plain(error), 160)})", LATER)


def _status_of(error: Exception) -> int:
    """Return the status of an HTTP answer that an error knows of: of requests, httpx, aiohttp or botocore."""
    for where in (error, error.__cause__, error.__context__):
        response = vars(where).get("response") if where is not None and hasattr(where, "__dict__") else None
        status = vars(where).get("status") if where is not None and hasattr(where, "__dict__") else None
        if isinstance(response, Mapping):
            status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        elif response is not None:
            status = response.status_code
        if isinstance(status, int) and status >= 400:
            return status
    return 0


def _plain(error: Exception) -> str:
    """Return the text of an error without the addresses in it."""
    words = str(error).split()
    return " ".join(redacted(word) if "://" in word else word for word in words)
