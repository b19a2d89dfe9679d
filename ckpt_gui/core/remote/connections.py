"""Connections to HTTP servers that are kept for the next request; through a proxy where the system names one."""

from __future__ import annotations

import base64
import http.client
import netrc
import ssl
import threading
from functools import lru_cache
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from ckpt_gui.core.version import version

TIMEOUT = 20.0  # seconds without a byte
MAX_KEPT = 8  # for each server


class Connections:
    """Connections that wait for the next request, by server."""

    def __init__(self) -> None:
        """Begin with none."""
        self._lock = threading.Lock()
        self._kept: dict[tuple[str, str], list[http.client.HTTPConnection]] = {}

    def take(self, parts: SplitResult) -> tuple[http.client.HTTPConnection, bool]:
        """Return a connection, and whether it was used before."""
        with self._lock:
            kept = self._kept.get((parts.scheme, parts.netloc))
            if kept:
                return kept.pop(), True
        return _connect(parts), False

    def give_back(self, parts: SplitResult, connection: http.client.HTTPConnection) -> None:
        """Keep a connection for the next request."""
        with self._lock:
            kept = self._kept.setdefault((parts.scheme, parts.netloc), [])
            if len(kept) < MAX_KEPT:
                kept.append(connection)
                return
        connection.close()

    def close(self) -> None:
        """Close those that wait."""
        with self._lock:
            kept = [connection for some in self._kept.values() for connection in some]
            self._kept.clear()
        for connection in kept:
            connection.close()

    def headers(self, parts: SplitResult, *, keeps_password: bool) -> dict[str, str]:
        """Return the headers of a request; a password goes only to the server that it was given for."""
        headers = {"Accept-Encoding": "identity", "User-Agent": f"ckpt_gui/{version()}"}
        login = _login(parts) if keeps_password else None
        if login is not None:
            headers["Authorization"] = f"Basic {base64.b64encode(':'.join(login).encode()).decode()}"
        return headers

    def target(self, parts: SplitResult) -> str:
        """Return what is asked for: the path, or the whole address where a proxy fetches it."""
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        if parts.scheme == "http" and _proxy(parts):
            return f"http://{parts.netloc.rpartition('@')[2]}{path}"
        return path


def _connect(parts: SplitResult) -> http.client.HTTPConnection:
    proxy = _proxy(parts)
    host = parts.hostname or ""
    if parts.scheme == "http":
        where = (proxy.hostname or "", proxy.port) if proxy else (host, parts.port)
        return http.client.HTTPConnection(*where, timeout=TIMEOUT)
    if proxy is None:
        return http.client.HTTPSConnection(host, parts.port, timeout=TIMEOUT, context=_tls())
    made = http.client.HTTPSConnection(proxy.hostname or "", proxy.port, timeout=TIMEOUT, context=_tls())
    made.set_tunnel(host, parts.port)
    return made


def _proxy(parts: SplitResult) -> SplitResult | None:
    """Return the proxy that the system names for a server, such as by HTTPS_PROXY and NO_PROXY."""
    named = getproxies().get(parts.scheme)
    if not named or proxy_bypass(parts.netloc.rpartition("@")[2]):
        return None
    return urlsplit(named if "://" in named else f"http://{named}")


def _login(parts: SplitResult) -> tuple[str, str] | None:
    """Return user and password: those of the address, or those that ~/.netrc has for the server."""
    if parts.username:
        return unquote(parts.username), unquote(parts.password or "")
    try:
        found = netrc.netrc().authenticators(parts.hostname or "")
    except (OSError, netrc.NetrcParseError):
        return None
    return (found[0], found[2] or "") if found else None


@lru_cache(maxsize=1)
def _tls() -> ssl.SSLContext:
    return ssl.create_default_context()
