"""The real server process on a tiny model, and ways to talk to it."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2 as httpx
from backstay_contract import termination
from backstay_contract.names import Env
from backstay_contract.termination import Termination

START_SECONDS = 120.0


class Server:
    """A server process; its log and its termination message."""

    def __init__(self, process: "subprocess.Popen[bytes]", log: Path, message: Path) -> None:
        self.process = process
        self._log = log
        self._message = message
        self.port = 0
        self.control_port = 0

    @property
    def url(self) -> str:
        """Of the HTTP port."""
        return f"http://127.0.0.1:{self.port}"

    def log(self) -> list[dict[str, Any]]:
        """The lines of its log."""
        return [json.loads(line) for line in self._log.read_text().splitlines()]

    def termination(self) -> Termination | None:
        """What it left for the kubelet."""
        return termination.read(self._message.read_text()) if self._message.exists() else None

    def wait_until_listening(self) -> None:
        """Returns when both ports are known."""
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end:
            match = re.search(r'"port": (\d+), "control_port": (\d+)', self._log.read_text())
            if match is not None:
                self.port, self.control_port = int(match[1]), int(match[2])
                return
            if self.process.poll() is not None:
                break
            time.sleep(0.02)
        raise AssertionError(f"the server does not listen:\n{self._log.read_text()}")

    def wait_until_ready(self) -> None:
        """Returns when it may be asked."""
        self.wait_until_listening()
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end:
            with contextlib.suppress(httpx.HTTPError):
                if httpx.get(f"{self.url}/readyz").status_code == 200:
                    return
            time.sleep(0.05)
        raise AssertionError(f"the server is not ready:\n{self._log.read_text()}")

    def tell(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Sends a signal."""
        self.process.send_signal(number)

    def value(self, name: str) -> float:
        """A series' value in /metrics."""
        text = httpx.get(f"{self.url}/metrics").text
        match = re.search(rf"^{name}{{[^}}]*}} (\S+)$", text, re.MULTILINE)
        assert match is not None, text
        return float(match[1])


@contextlib.contextmanager
def running(place: Path, *arguments: str, **environment: str) -> Iterator[Server]:
    """A server that is killed with the block, if it has not ended."""
    place.mkdir(parents=True, exist_ok=True)
    log, message = place / "log", place / "termination"
    told = {
        Env.HOST: "127.0.0.1",
        Env.PORT: "0",
        Env.CONTROL_PORT: "0",
        Env.THREADS: "1",
        Env.TERMINATION_LOG: str(message),
        **environment,
    }
    command = [sys.executable, "-m", "backstay_runtime", "serve", *arguments]
    with log.open("wb") as out:
        process = subprocess.Popen(command, env={**os.environ, **told}, stdout=out, stderr=subprocess.STDOUT)
    try:
        yield Server(process, log, message)
    finally:
        process.kill()
        process.wait()


def raw(port: int, content: bytes, patience: float = 10.0) -> bytes:
    """What the server answers to these bytes until it closes the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=patience) as sock:
        with contextlib.suppress(ConnectionError):
            sock.sendall(content)
        answer = b""
        with contextlib.suppress(ConnectionError):
            while part := sock.recv(65536):
                answer += part
        return answer
