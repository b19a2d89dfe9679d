"""A small HTTP server with ranges, on loopback, that can be told to misbehave in one way at a time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit


class Server(ThreadingHTTPServer):
    """Serves bytes by path.

    Attributes:
        files: Content by path, such as `/m/config.json`.
        fault: What is wrong with its answers to requests of files whose path ends in `where`.
        where: See `fault`.
        times: How many answers are wrong; then all is well.
        asked: Path and Range header of each request.
        logins: Authorization headers that came, by path.
        closing: Set at the end: a `silent` answer waits for it.
    """

    daemon_threads = True
    block_on_close = False
    request_queue_size = 64  # a connection more would wait for a second

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.fault, self.where, self.times = "", "", 1 << 30
        self.asked: list[tuple[str, str]] = []
        self.logins: list[tuple[str, str | None]] = []
        self.lock = threading.Lock()
        self.closing = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def misbehave(self, fault: str, where: str = ".safetensors", times: int = 1 << 30) -> None:
        self.fault, self.where, self.times = fault, where, times

    def requests_of(self, name: str) -> int:
        return sum(path.endswith(name) for path, _ in self.asked)

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of clients that went away."""


class Handler(BaseHTTPRequestHandler):
    """Answers GET as RFC 9110 says, unless told otherwise."""

    protocol_version = "HTTP/1.1"
    server: Server

    def log_message(self, *_: object) -> None:
        """Be silent."""

    def do_GET(self) -> None:
        server, path = self.server, unquote(urlsplit(self.path).path)
        with server.lock:
            server.asked.append((path, self.headers.get("Range", "")))
            server.logins.append((path, self.headers.get("Authorization")))
            wrong = bool(server.fault) and path.endswith(server.where) and server.times > 0
            server.times -= wrong
        if wrong and getattr(self, f"wrong_{server.fault}")(path):
            return
        data = server.files.get(path)
        if data is None:
            self.answer(404, b"nothing here")
            return
        self.serve(data)

    def serve(self, data: bytes, tag: str | None = None, shift: int = 0) -> None:
        start, end = self.span(len(data))
        tag = tag or f'"{sha256(data).hexdigest()[:16]}"'
        if start >= len(data):
            self.answer(416, b"", {"Content-Range": f"bytes */{len(data)}", "ETag": tag})
            return
        said = f"bytes {start + shift}-{end - 1 + shift}/{len(data)}"
        self.answer(206, data[start:end], {"Content-Range": said, "ETag": tag})

    def span(self, size: int) -> tuple[int, int]:
        low, _, high = self.headers.get("Range", "bytes=0-").removeprefix("bytes=").partition("-")
        return int(low), min(size, int(high) + 1 if high else size)

    def answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    # ------------------------------------------------------------------------------------------------------ faults

    def wrong_401(self, _: str) -> bool:
        return self.plain(401)

    def wrong_403(self, _: str) -> bool:
        return self.plain(403)

    def wrong_416(self, _: str) -> bool:
        return self.plain(416)

    def wrong_429(self, _: str) -> bool:
        self.answer(429, b"", {"Retry-After": "0"})
        return True

    def wrong_503(self, _: str) -> bool:
        return self.plain(503)

    def wrong_html(self, _: str) -> bool:
        self.answer(200, b"<!doctype html><title>Sign in</title>", {"Content-Type": "text/html; charset=utf-8"})
        return True

    def wrong_login(self, path: str) -> bool:
        self.server.files["/login"] = b"<html>"
        if path == "/login":
            return self.wrong_html(path)
        self.server.where = ""  # the page is wrong as well
        self.answer(302, b"", {"Location": "/login?next=x"})
        return True

    def wrong_to_file(self, _: str) -> bool:
        self.answer(302, b"", {"Location": "file:///etc/passwd"})
        return True

    def wrong_circle(self, path: str) -> bool:
        self.answer(302, b"", {"Location": path})
        return True

    def wrong_short(self, path: str) -> bool:
        data = self.server.files[path]
        start, end = self.span(len(data))
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {start}-{end - 1}/{len(data)}")
        self.send_header("Content-Length", str(end - start))
        self.end_headers()
        self.wfile.write(data[start : start + (end - start) // 2])
        self.close_connection = True
        return True

    def wrong_dropped(self, _: str) -> bool:
        self.close_connection = True
        self.connection.close()
        return True

    def wrong_range(self, path: str) -> bool:
        self.serve(self.server.files[path], shift=7)
        return True

    def wrong_gzip(self, path: str) -> bool:
        self.answer(200, b"\x1f\x8b" + b"0" * 20, {"Content-Encoding": "gzip"})
        return True

    def wrong_whole(self, path: str) -> bool:
        self.answer(200, self.server.files[path], {"ETag": '"whole"'})
        return True

    def wrong_whole_large(self, path: str) -> bool:
        self.send_response(200)
        self.send_header("Content-Length", str(5 << 30))
        self.end_headers()
        self.close_connection = True
        return True

    def wrong_silent(self, path: str) -> bool:
        self.server.closing.wait()
        self.close_connection = True
        return True

    def plain(self, status: int) -> bool:
        self.answer(status, b"")
        return True


@contextmanager
def serving() -> Iterator[Server]:
    """Serve until the block ends."""
    server = Server()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.closing.set()
        server.shutdown()
        server.server_close()
        thread.join()
