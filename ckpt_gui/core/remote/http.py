"""Files of HTTP servers, by range requests (RFC 9110, section 14), read as strictly as anything from a stranger.

An answer counts only if it says of itself that it is the very range of the very file that was asked for. Connections
are kept and used again; a redirect leads to HTTP addresses only, never from https to http, and takes no password along.
"""

from __future__ import annotations

import http.client
from urllib.parse import urlsplit

from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.remote.address import real_address
from ckpt_gui.core.remote.connections import Connections
from ckpt_gui.core.remote.faults import DOWNLOAD, Fault, changed, of_status
from ckpt_gui.core.remote.http_answers import (
    NOTHING,
    REDIRECTS,
    Answer,
    body_of,
    checked,
    content_range,
    lost,
    next_address,
    tag_of,
    whole,
    wrong_range,
)
from ckpt_gui.core.remote.store import Opened, Stat

MAX_REDIRECTS = 5
_FILES = (
    *(".safetensors", ".pt", ".pth", ".bin", ".ckpt", ".gguf", ".npz", ".npy", ".json", ".pkl", ".h5", ".onnx"),
    *(".zip", ".gz", ".tar", ".distcp", "/.metadata"),
)
_STALE = (401, 403, 404, 410)  # what a redirect that ran out answers


class HttpStore:
    """Reads files by HTTP."""

    lists = False

    def __init__(self) -> None:
        """Begin without connections."""
        self._connections = Connections()
        self._moved: dict[str, str] = {}  # where a redirect led, by where it began

    def open(self, url: str, head: int) -> Opened:
        """Return size, tag and the first bytes of a file, with one request.

        Raises:
            Fault: It is not there, or the server does not do as HTTP says.
        """
        answer = self._get(url, 0, head)
        tag = tag_of(answer.headers)
        if answer.status == 416:
            found = NOTHING.match(answer.headers.get("content-range", ""))
            if found is None or int(found[1]):
                raise of_status(416)
            return Opened(Stat(0, tag), b"")
        if answer.status == 200:
            return Opened(Stat(len(answer.body), tag), answer.body)
        first, last, size = content_range(answer)
        if size is None:
            raise Fault("does not say how large the file is", DOWNLOAD)
        if first != 0 or last != min(head, size) - 1:
            raise wrong_range(answer, 0, min(head, size))
        return Opened(Stat(size, tag), whole(answer.body, last + 1))

    def read(self, url: str, stat: Stat, start: int, end: int) -> bytes:
        """Return the bytes [start, end) of a file that has not changed.

        Raises:
            Fault: It changed, or the server does not do as HTTP says.
        """
        answer = self._get(url, start, end)
        tag = tag_of(answer.headers)
        if stat.tag and tag and tag != stat.tag:
            raise changed(f"it was {safe_text(stat.tag, 60)} and is {safe_text(tag, 60)} now")
        if answer.status == 416:
            raise of_status(416)
        if answer.status == 200:
            if len(answer.body) != stat.size:
                raise changed(f"it had {stat.size:,} bytes and has {len(answer.body):,} now")
            return answer.body[start:end]
        first, last, size = content_range(answer)
        if size is not None and size != stat.size:
            raise changed(f"it had {stat.size:,} bytes and has {size:,} now")
        if (first, last) != (start, end - 1):
            raise wrong_range(answer, start, end)
        return whole(answer.body, end - start)

    def forget(self, url: str, stat: Stat) -> None:
        """Do nothing: connections are kept by server."""

    def close(self) -> None:
        """Close the connections that are kept."""
        self._connections.close()

    def is_folder(self, url: str) -> bool:
        """True for an address that ends in no name of a file, and under which there is none: HTTP knows no folders."""
        path = urlsplit(url).path.lower()
        if path.endswith(("/", *_FILES)):
            return path.endswith("/")
        try:
            self.open(url, 1)
        except Fault as fault:
            if fault.status not in _STALE and fault.code != "not-a-checkpoint":
                raise
            return True
        return False

    def names(self, url: str) -> dict[str, bool]:
        """Return nothing: HTTP lists no folders."""
        return {}

    def _get(self, public: str, start: int, end: int) -> Answer:
        """Return the answer to a request for a range, redirects followed."""
        real = real_address(public)
        moved = self._moved.get(real)
        if moved is not None:
            try:
                return self._follow(moved, real, start, end)
            except Fault as fault:
                if fault.status not in _STALE:
                    raise
                self._moved.pop(real, None)  # signed for a time that is over: ask anew
        return self._follow(real, real, start, end)

    def _follow(self, url: str, real: str, start: int, end: int) -> Answer:
        for _ in range(MAX_REDIRECTS + 1):
            answer = self._request(url, start, end, keeps_password=urlsplit(url)[:2] == urlsplit(real)[:2])
            if answer.status not in REDIRECTS:
                if url != real:
                    self._moved[real] = url
                return checked(answer)
            url = next_address(url, answer.headers.get("location", ""))
        raise Fault(f"leads on more than {MAX_REDIRECTS} times", "Look for the address that it leads to in the end.")

    def _request(self, url: str, start: int, end: int, *, keeps_password: bool) -> Answer:
        parts = urlsplit(url)
        connection, reused = self._connections.take(parts)
        headers = self._connections.headers(parts, keeps_password=keeps_password)
        headers["Range"] = f"bytes={start}-{end - 1}"
        try:
            connection.request("GET", self._connections.target(parts), headers=headers)
            response = connection.getresponse()
            answer = Answer(
                response.status, {k.lower(): v for k, v in response.getheaders()}, body_of(response, end - start), url
            )
        except (OSError, http.client.HTTPException, ValueError) as error:
            connection.close()
            if reused and not isinstance(error, TimeoutError):  # closed while it was kept: no sign of trouble
                return self._request(url, start, end, keeps_password=keeps_password)
            raise lost(error) from error
        except BaseException:
            connection.close()
            raise
        if response.isclosed() and not response.will_close:
            self._connections.give_back(parts, connection)
        else:
            connection.close()
        return answer
