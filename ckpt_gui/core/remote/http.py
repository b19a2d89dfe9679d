"""Files of HTTP servers, by range requests (RFC 9110, section 14), read as strictly as anything from a stranger.

An answer counts only if it says of itself that it is the very range of the very file that was asked for. Connections
are kept and used again; a redirect leads to HTTP addresses only, never from https to http, and takes no password along.
"""

from __future__ import annotations

import email.utils
import http.client
import re
import time
from collections.abc import Mapping
from urllib.parse import urljoin, urlsplit

from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.remote.address import HTTP, real_address, shown
from ckpt_gui.core.remote.connections import Connections
from ckpt_gui.core.remote.faults import CHANGED, DOWNLOAD, LATER, SIGN_IN, Fault, of_status
from ckpt_gui.core.remote.store import Opened, Stat
from ckpt_gui.dataclasses import dataclass

MAX_WHOLE = 32 << 20  # a file that a server hands out only as a whole is read up to this
MAX_REDIRECTS = 5
LEAST_SPEED = 50_000  # bytes a second; a server that is slower than that for long is given up
PATIENCE = 60.0  # seconds
_CHUNK = 1 << 18
_RANGE = re.compile(r"\s*bytes\s+(\d{1,19})-(\d{1,19})/(\d{1,19}|\*)\s*\Z", re.IGNORECASE)
_NOTHING = re.compile(r"\s*bytes\s+\*/(\d{1,19})\s*\Z", re.IGNORECASE)
_REDIRECTS = (301, 302, 303, 307, 308)
_LOGIN = re.compile(r"log[-_]?in|sign[-_]?in|/auth|/sso|/saml", re.IGNORECASE)
_FILES = (
    *(".safetensors", ".pt", ".pth", ".bin", ".ckpt", ".gguf", ".npz", ".npy", ".json", ".pkl", ".h5", ".onnx"),
    *(".zip", ".gz", ".tar", ".distcp", "/.metadata"),
)
_STALE = (401, 403, 404, 410)  # what a redirect that ran out answers


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of a server.

    Attributes:
        status: Its status.
        headers: Its headers, names in lower case.
        body: What came, no more than was allowed.
        url: Where it came from in the end.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    url: str


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
        tag = _tag(answer.headers)
        if answer.status == 416:
            found = _NOTHING.match(answer.headers.get("content-range", ""))
            if found is None or int(found[1]):
                raise of_status(416)
            return Opened(Stat(0, tag), b"")
        if answer.status == 200:
            return Opened(Stat(len(answer.body), tag), answer.body)
        first, last, size = _content_range(answer)
        if size is None:
            raise Fault("does not say how large the file is", DOWNLOAD)
        if first != 0 or last != min(head, size) - 1:
            raise _wrong_range(answer, 0, min(head, size))
        return Opened(Stat(size, tag), _whole(answer.body, last + 1))

    def read(self, url: str, stat: Stat, start: int, end: int) -> bytes:
        """Return the bytes [start, end) of a file that has not changed.

        Raises:
            Fault: It changed, or the server does not do as HTTP says.
        """
        answer = self._get(url, start, end)
        tag = _tag(answer.headers)
        if stat.tag and tag and tag != stat.tag:
            raise changed(f"it was {safe_text(stat.tag, 60)} and is {safe_text(tag, 60)} now")
        if answer.status == 416:
            raise of_status(416)
        if answer.status == 200:
            if len(answer.body) != stat.size:
                raise changed(f"it had {stat.size:,} bytes and has {len(answer.body):,} now")
            return answer.body[start:end]
        first, last, size = _content_range(answer)
        if size is not None and size != stat.size:
            raise changed(f"it had {stat.size:,} bytes and has {size:,} now")
        if (first, last) != (start, end - 1):
            raise _wrong_range(answer, start, end)
        return _whole(answer.body, end - start)

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
            if answer.status not in _REDIRECTS:
                if url != real:
                    self._moved[real] = url
                return _checked(answer)
            url = _next(url, answer.headers.get("location", ""))
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
                response.status, {k.lower(): v for k, v in response.getheaders()}, _body(response, end - start), url
            )
        except (OSError, http.client.HTTPException, ValueError) as error:
            connection.close()
            if reused and not isinstance(error, TimeoutError):  # closed while it was kept: no sign of trouble
                return self._request(url, start, end, keeps_password=keeps_password)
            raise _lost(error) from error
        except BaseException:
            connection.close()
            raise
        if response.isclosed() and not response.will_close:
            self._connections.give_back(parts, connection)
        else:
            connection.close()
        return answer


def changed(how: str) -> Fault:
    """Return the fault of a file that is another now than the one that was opened."""
    return Fault(f"has another file there now than the one that was opened: {how}", CHANGED, code="damaged")


def _body(response: http.client.HTTPResponse, wanted: int) -> bytes:
    """Return what comes: a range and no more, or a whole file if it is small."""
    if response.status not in (200, 206):
        return response.read(_CHUNK) if response.status in (416, *_REDIRECTS) else b""
    claimed = response.getheader("Content-Length") or ""
    limit = wanted if response.status == 206 else MAX_WHOLE
    if response.status == 200 and claimed.isdecimal() and int(claimed) > MAX_WHOLE:
        return b""  # refused by who sees the headers
    chunks, got, begun = [], 0, time.monotonic()
    while got <= limit:
        chunk = response.read1(min(_CHUNK, limit + 1 - got))
        if not chunk:
            break
        chunks.append(chunk)
        got += len(chunk)
        taken = time.monotonic() - begun
        if taken > PATIENCE and got < LEAST_SPEED * taken:
            raise Fault(f"sends too slowly: {got:,} bytes in {taken:.0f} seconds", LATER, retry=True)
    if claimed.isdecimal() and got < min(int(claimed), limit):
        raise Fault(f"broke off after {got:,} of {int(claimed):,} bytes", retry=True)
    return b"".join(chunks)


def _checked(answer: Answer) -> Answer:
    """Return an answer that can be a file's.

    Raises:
        Fault: It is an error, a web page, packed, or the whole of a large file.
    """
    if answer.status not in (200, 206, 416):
        raise of_status(answer.status, _wait_time(answer.headers.get("retry-after", "")))
    kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind in ("text/html", "application/xhtml+xml"):
        login = " for a sign-in" if _LOGIN.search(urlsplit(answer.url).path) else ""
        raise Fault(f"answers with a web page{login} in place of the file", SIGN_IN, code="not-a-checkpoint")
    packing = answer.headers.get("content-encoding", "identity").strip().lower()
    if packing not in ("", "identity"):
        what = f"packs what it sends ({safe_text(packing, 40)}), so that parts of the file cannot be read"
        raise Fault(what, DOWNLOAD)
    claimed = answer.headers.get("content-length", "")
    size = int(claimed) if claimed.isdecimal() else len(answer.body)
    if answer.status == 200 and size > MAX_WHOLE:
        how = f"the file of {size:,} bytes" if claimed.isdecimal() else f"more than {MAX_WHOLE:,} bytes"
        raise Fault(f"sends no parts of files, only {how} as a whole", DOWNLOAD)
    return answer


def _content_range(answer: Answer) -> tuple[int, int, int | None]:
    found = _RANGE.match(answer.headers.get("content-range", ""))
    if found is None:
        raise _wrong_range(answer, None, None)
    return int(found[1]), int(found[2]), None if found[3] == "*" else int(found[3])


def _wrong_range(answer: Answer, start: int | None, end: int | None) -> Fault:
    said = safe_text(answer.headers.get("content-range", "nothing"), 80)
    asked = f" in place of bytes {start:,} to {end - 1:,}" if start is not None and end is not None else ""
    return Fault(f"sends another part of the file than it was asked for{asked} (Content-Range: {said})", DOWNLOAD)


def _whole(body: bytes, wanted: int) -> bytes:
    if len(body) != wanted:
        few = f"broke off after {len(body):,} of {wanted:,} bytes"
        many = f"sends more than the {wanted:,} bytes that it announced"
        raise Fault(few if len(body) < wanted else many, retry=True)
    return body


def _tag(headers: Mapping[str, str]) -> str:
    """Return what tells one state of a file from another; weak ETags count as well, as nothing better is there."""
    return headers.get("etag", "").strip() or headers.get("last-modified", "").strip()


def _next(url: str, location: str) -> str:
    """Return where a redirect leads.

    Raises:
        Fault: Nowhere, to something that is not HTTP, or from https to http.
    """
    there = urlsplit(urljoin(url, location))
    if not location or there.scheme not in HTTP or not there.hostname:
        what = f"leads on to {shown(there.scheme or 'nowhere')}, which is no web address; it was not followed"
        raise Fault(what, "Do not use this address.")
    if urlsplit(url).scheme == "https" and there.scheme == "http":
        raise Fault("leads on from https to http, which anybody can read; it was not followed", "Use another address.")
    return there._replace(fragment="").geturl()


def _wait_time(text: str) -> float:
    """Return the seconds of a Retry-After header, a number or a date."""
    if text.strip().isdecimal():
        return float(text.strip()[:6])
    parsed = email.utils.parsedate_tz(text)
    return max(0.0, email.utils.mktime_tz(parsed) - time.time()) if parsed else 0.0


def _lost(error: OSError | http.client.HTTPException | ValueError) -> Fault:
    """Return the fault of a connection that failed; the text of the error may hold the address and is not shown."""
    import socket
    import ssl

    if isinstance(error, socket.gaierror):
        return Fault("was not found: its name is not known (DNS)")
    if isinstance(error, ssl.SSLCertVerificationError):
        return Fault(f"shows a certificate that is not trusted ({safe_text(error.verify_message, 120)})")
    if isinstance(error, TimeoutError):
        return Fault("did not answer in time", retry=True)
    if isinstance(error, ConnectionRefusedError):
        return Fault("refuses the connection: nothing listens there")
    if isinstance(error, http.client.IncompleteRead):
        return Fault(f"broke off after {len(error.partial):,} bytes", retry=True)
    if isinstance(error, OSError):
        return Fault(f"broke the connection ({safe_text(error.strerror or type(error).__name__, 120)})", retry=True)
    return Fault(f"does not speak HTTP as it should ({type(error).__name__})", retry=True)
