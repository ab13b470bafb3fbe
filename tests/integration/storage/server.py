"""A real MinIO on the loopback interface, with random keys."""

import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import urllib3
from backstay_cluster import programs
from minio import Minio
from minio.error import MinioException
from urllib3.exceptions import HTTPError

READY_SECONDS = 30


@dataclass(frozen=True)
class Server:
    """A running MinIO."""

    port: int
    access_key: str
    secret_key: str
    data: Path
    certificate: Path | None = None
    """For TLS, under the name localhost: also the authority that vouches for it."""

    @property
    def endpoint(self) -> str:
        return f"https://localhost:{self.port}" if self.certificate else f"http://127.0.0.1:{self.port}"

    def client(self) -> Minio:
        """A client with all rights."""
        url = urlsplit(self.endpoint)
        pool = urllib3.PoolManager(ca_certs=str(self.certificate)) if self.certificate else None
        secure = self.certificate is not None
        return Minio(url.netloc, self.access_key, self.secret_key, secure=secure, region="us-east-1", http_client=pool)


def program() -> Path | None:
    """MinIO as the project builds it, or else the one on PATH."""
    found = programs.built("minio") or shutil.which("minio")
    return Path(found) if found else None


@contextmanager
def running(minio: Path, data: Path, certificates: Path | None = None) -> Iterator[Server]:
    """Starts MinIO over `data`, waits until it answers, and ends it; `certificates`: public.crt and private.key."""
    certificate = certificates / "public.crt" if certificates else None
    server = Server(_free_port(), secrets.token_hex(8), secrets.token_hex(16), data, certificate)
    environment = {
        "MINIO_ROOT_USER": server.access_key,
        "MINIO_ROOT_PASSWORD": server.secret_key,
        "MINIO_BROWSER": "off",
        "MINIO_UPDATE": "off",
        "HOME": str(data.parent),
    }
    command = [str(minio), "server", "--quiet", "--address", f"127.0.0.1:{server.port}", str(data)]
    if certificates:
        command[2:2] = ["--certs-dir", str(certificates)]
    with (data.parent / "minio.log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        _wait_until_ready(server, process)
        yield server
    finally:
        process.terminate()
        process.wait(10)


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def _wait_until_ready(server: Server, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(
                f"minio ended with {process.returncode}: {(server.data.parent / 'minio.log').read_text()}"
            )
        try:
            server.client().list_buckets()
        except (HTTPError, MinioException):
            time.sleep(0.1)
        else:
            return
    raise RuntimeError(f"minio was not ready after {READY_SECONDS} s")
