"""Answers of HTTP servers (RFC 9110), each refused unless it can be a file's: its body, its range, where it leads."""

from __future__ import annotations

import email.utils
import http.client
import re
import time
from collections.abc import Mapping
from urllib.parse import urljoin, urlsplit

from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.remote.address import HTTP, shown
from ckpt_gui.core.remote.faults import DOWNLOAD, LATER, SIGN_IN, Fault, of_status
from ckpt_gui.dataclasses import dataclass

MAX_WHOLE = 32 << 20  # a file that a server hands out only as a whole is read up to this
LEAST_SPEED = 50_000  # bytes a second; a server that is slower than that for long is given up
PATIENCE = 60.0  # seconds
REDIRECTS = (301, 302, 303, 307, 308)
NOTHING = re.compile(r"\s*bytes\s+\*/(\d{1,19})\s*\Z", re.IGNORECASE)  # the range of a file without bytes
_CHUNK = 1 << 18
_RANGE = re.compile(r"\s*bytes\s+(\d{1,19})-(\d{1,19})/(\d{1,19}|\*)\s*\Z", re.IGNORECASE)
_LOGIN = re.compile(r"log[-_]?in|sign[-_]?in|/auth|/sso|/saml", re.IGNORECASE)


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


def body_of(response: http.client.HTTPResponse, wanted: int) -> bytes:
    """Return what comes: a range and no more, or a whole file if it is small."""
    if response.status not in (200, 206):
        return response.read(_CHUNK) if response.status in (416, *REDIRECTS) else b""
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


def checked(answer: Answer) -> Answer:
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


def content_range(answer: Answer) -> tuple[int, int, int | None]:
    """Return first and last byte of the range that an answer says it is, and the bytes of the file if it tells them.

    Raises:
        Fault: It says nothing that can be read.
    """
    found = _RANGE.match(answer.headers.get("content-range", ""))
    if found is None:
        raise wrong_range(answer, None, None)
    return int(found[1]), int(found[2]), None if found[3] == "*" else int(found[3])


def wrong_range(answer: Answer, start: int | None, end: int | None) -> Fault:
    """Return the fault of an answer that is not the range [start, end) that was asked for."""
    said = safe_text(answer.headers.get("content-range", "nothing"), 80)
    asked = f" in place of bytes {start:,} to {end - 1:,}" if start is not None and end is not None else ""
    return Fault(f"sends another part of the file than it was asked for{asked} (Content-Range: {said})", DOWNLOAD)


def whole(body: bytes, wanted: int) -> bytes:
    """Return what came if it has as many bytes as were announced.

    Raises:
        Fault: It has fewer or more.
    """
    if len(body) != wanted:
        few = f"broke off after {len(body):,} of {wanted:,} bytes"
        many = f"sends more than the {wanted:,} bytes that it announced"
        raise Fault(few if len(body) < wanted else many, retry=True)
    return body


def tag_of(headers: Mapping[str, str]) -> str:
    """Return what tells one state of a file from another; weak ETags count as well, as nothing better is there."""
    return headers.get("etag", "").strip() or headers.get("last-modified", "").strip()


def next_address(url: str, location: str) -> str:
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


def lost(error: OSError | http.client.HTTPException | ValueError) -> Fault:
    """Return the fault of a connection that failed; the text of the error may hold the address and is not shown."""
    import socket
    import ssl

    if isinstance(error, socket.gaierror):
        return Fault("was not found: its name is not known (DNS)")
    if isinstance(error, ssl.SSLCertVerificationError):
        return Fault(f"shows a certificate that is not trusted ({safe_text(error.verify_message, 120)})")
    if isinstance(error, ssl.SSLError) and error.reason == "WRONG_VERSION_NUMBER":
        return Fault("does not speak https at this port", "Write http:// in the address, or another port.")
    if isinstance(error, TimeoutError):
        return Fault("did not answer in time", retry=True)
    if isinstance(error, ConnectionRefusedError):
        return Fault("refuses the connection: nothing listens there", restart=True)
    if isinstance(error, http.client.IncompleteRead):
        return Fault(f"broke off after {len(error.partial):,} bytes", retry=True)
    if isinstance(error, OSError):
        return Fault(f"broke the connection ({safe_text(error.strerror or type(error).__name__, 120)})", retry=True)
    return Fault(f"does not speak HTTP as it should ({type(error).__name__})", retry=True)
