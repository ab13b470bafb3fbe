"""A proxy before the storage that fails as it is told: answers of its own, lost connections, slow bytes."""

import http.client
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CHUNK = 64 * 1024


@dataclass
class Action:
    """What happens to a request."""

    status: int = 0
    """Answer this instead of asking the storage."""
    headers: dict[str, str] = field(default_factory=dict)
    lose_after: int | None = None
    """Close the connection after so many bytes of the body."""
    bytes_per_second: float | None = None
    before: Callable[[], None] = lambda: None
    """Done before the request goes on."""


Rule = Callable[[str, str, dict[str, str]], Action | None]
"""rule(method, path, headers): what happens to this request, or None for nothing special."""


class Proxy:
    """Counts requests and body bytes, and applies the present rule."""

    def __init__(self, target_port: int) -> None:
        self.target_port = target_port
        self.rule: Rule = lambda method, path, headers: None
        self.requests: list[tuple[str, str]] = []
        self.bytes_out = 0
        self.bytes_in = 0
        self.port = 0
        self.lock = threading.Lock()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def running(target_port: int) -> Iterator[Proxy]:
    """A proxy before the server at this port."""
    proxy = Proxy(target_port)

    class Handler(_Handler):
        shared = proxy

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.block_on_close = False
    proxy.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    shared: Proxy

    def log_message(self, format: str, *args: object) -> None:
        pass

    def _handle(self) -> None:
        headers = dict(self.headers.items())
        body = self.rfile.read(int(headers.get("Content-Length", 0)))
        path = self.path.partition("?")[0]
        with self.shared.lock:
            self.shared.requests.append((self.command, self.path))
            self.shared.bytes_in += len(body)
        action = self.shared.rule(self.command, path, headers) or Action()
        action.before()
        if body and action.bytes_per_second:
            time.sleep(len(body) / action.bytes_per_second)
        try:
            if action.status:
                self._answer(action)
            else:
                self._forward(headers, body, action)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _handle  # noqa: N815 - the library's names

    def _answer(self, action: Action) -> None:
        self.send_response(action.status)
        for name, value in ({"Content-Length": "0"} | action.headers).items():
            self.send_header(name, value)
        self.end_headers()

    def _forward(self, headers: dict[str, str], body: bytes, action: Action) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.shared.target_port, timeout=30)
        try:
            connection.request(self.command, self.path, body or None, headers)
            answer = connection.getresponse()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in ("server", "date", "connection"):
                    self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self._body(answer, action)
        finally:
            connection.close()

    def _body(self, answer: http.client.HTTPResponse, action: Action) -> None:
        sent = 0
        while data := answer.read(CHUNK):
            if action.lose_after is not None and sent + len(data) > action.lose_after:
                self.wfile.write(data[: action.lose_after - sent])
                self.wfile.flush()
                self.close_connection = True
                self.connection.close()
                return
            self.wfile.write(data)
            sent += len(data)
            with self.shared.lock:
                self.shared.bytes_out += len(data)
            if action.bytes_per_second:
                time.sleep(len(data) / action.bytes_per_second)
