"""A receiver of notifications inside the control plane's network namespace."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from backstay_cluster.control_plane import ControlPlane

Json = dict[str, Any]


class Sink:
    """Keeps what it was sent; answers 503 while it is `busy`."""

    def __init__(self, plane: ControlPlane) -> None:
        self.received: list[Json] = []
        self.busy = False
        sink = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if not sink.busy:
                    sink.received.append(body)
                self.send_response(503 if sink.busy else 202)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server: ThreadingHTTPServer = plane.inside(lambda: ThreadingHTTPServer(("127.0.0.1", 0), Handler))
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/hook-with-a-secret"

    def reasons(self) -> list[str]:
        """In the order in which they came, each id once."""
        return [one["data"]["reason"] for one in {one["id"]: one for one in self.received}.values()]

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
