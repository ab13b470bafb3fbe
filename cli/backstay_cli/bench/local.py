"""A runtime of its own on this machine, for a folder that is measured before it is pushed."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import urllib3
from backstay_contract import termination
from backstay_contract.names import Env
from urllib3.exceptions import HTTPError

from backstay_cli.errors import CliError, Exit, refused, usage

READY_SECONDS = 600
END_SECONDS = 40


@contextmanager
def runtime(folder: Path) -> Iterator[str]:
    """Serves a model's folder on the loopback interface; yields the URL. Raises CliError."""
    if find_spec("backstay_runtime") is None:
        raise usage("without --url the runtime must be installed here: install backstay-runtime, or give --url")
    port, control = _free_port(), _free_port()
    with tempfile.TemporaryDirectory() as place:
        said = Path(place) / "termination"
        environment = os.environ | {
            Env.HOST: "127.0.0.1",
            Env.PORT: str(port),
            Env.CONTROL_PORT: str(control),
            Env.TERMINATION_LOG: str(said),
        }
        command = [sys.executable, "-m", "backstay_runtime", "serve", "--model", str(folder)]
        process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            url = f"http://127.0.0.1:{port}"
            _wait(url, process, said)
            yield url
        finally:
            _end(process)


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def _wait(url: str, process: "subprocess.Popen[bytes]", said: Path) -> None:
    deadline = time.monotonic() + READY_SECONDS
    with urllib3.PoolManager(retries=False, timeout=5) as pool:
        while time.monotonic() < deadline:
            if process.poll() is not None:
                found = termination.read(said.read_text(encoding="utf-8")) if said.exists() else None
                why = found.message if found else f"exit code {process.returncode}"
                raise refused(f"the runtime cannot serve the model: {why}")
            try:
                if pool.request("GET", f"{url}/readyz").status == 200:
                    return
            except HTTPError:
                pass
            time.sleep(0.2)
    raise CliError(f"the runtime was not ready after {READY_SECONDS} s", Exit.UNREACHABLE)


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
