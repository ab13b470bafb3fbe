"""A MinIO of its own on the loopback interface, and a model of random bytes in it."""

import hashlib
import io
import os
import secrets
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from backstay_cluster import programs
from backstay_contract import manifest as manifests
from backstay_contract.location import Location
from backstay_contract.manifest import Architecture, Manifest, ModelFile
from backstay_contract.names import MANIFEST_FILE, Key
from minio import Minio

MIB = 1024 * 1024
MODEL = Location("models", "bench/1")


@dataclass(frozen=True)
class Storage:
    """A running MinIO."""

    host: str
    access: str
    secret: str
    keys: Path
    """Folder with the two keys, as an init container has it."""

    @property
    def url(self) -> str:
        return f"http://{self.host}"

    def client(self) -> Minio:
        return Minio(self.host, self.access, self.secret, secure=False, region="us-east-1")


@dataclass(frozen=True)
class Published:
    """The model that is moved."""

    digest: str
    manifest: Manifest
    folder: Path
    """Its files on the disk."""

    @property
    def sizes(self) -> dict[str, int]:
        return {file.path: file.size for file in self.manifest.files}


@contextmanager
def storage(folder: Path) -> Iterator[Storage]:
    """Starts MinIO over a folder, and ends it."""
    program = programs.built("minio") or shutil.which("minio")
    if program is None:
        raise SystemExit("MinIO is not built: run `uv run python -m backstay_cluster build --only minio`")
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{one.getsockname()[1]}"
    access, secret = secrets.token_hex(8), secrets.token_hex(16)
    keys = folder / "keys"
    keys.mkdir()
    (keys / Key.ACCESS).write_text(access)
    (keys / Key.SECRET).write_text(secret)
    environment = {"MINIO_ROOT_USER": access, "MINIO_ROOT_PASSWORD": secret, "HOME": str(folder)}
    command = [str(program), "server", "--quiet", "--address", host, str(folder / "data")]
    with (folder / "minio.log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        _wait(f"http://{host}/minio/health/ready")
        yield Storage(host, access, secret, keys)
    finally:
        process.terminate()
        process.wait(10)


def _wait(url: str) -> None:
    for _ in range(300):
        try:
            with urllib.request.urlopen(url, timeout=1):  # noqa: S310 - a loopback address made above
                return
        except OSError:
            time.sleep(0.1)
    raise SystemExit(f"{url} did not answer")


def publish(client: Minio, folder: Path, files: int, size: int) -> Published:
    """A model of random bytes, on the disk and in the storage."""
    client.make_bucket(MODEL.bucket)
    (source := folder / "source").mkdir()
    listed = []
    for index in range(files):
        path = f"model-{index:05}.safetensors"
        hashed = hashlib.sha256()
        with (source / path).open("wb") as out:
            for _ in range(size // files // MIB):
                block = os.urandom(MIB)
                hashed.update(block)
                out.write(block)
        client.fput_object(MODEL.bucket, MODEL.key(path), str(source / path), part_size=64 * MIB)
        listed.append(ModelFile(path=path, size=(source / path).stat().st_size, sha256=hashed.hexdigest()))
    manifest = Manifest(name="bench", version="1", files=tuple(listed), architecture=Architecture(family="llama"))
    data = manifests.dump(manifest)
    client.put_object(MODEL.bucket, MODEL.key(MANIFEST_FILE), io.BytesIO(data), len(data))
    return Published(manifests.digest_of(data), manifest, source)


def warm(folder: Path, size: int) -> None:
    """Leaves as much free memory that was just used.

    A virtual machine's unused memory goes back to its host, and to have it again costs more than to fill it: whoever
    came first after a pause would pay for all who follow.
    """
    block = bytes(MIB)
    with (file := folder / "warm").open("wb") as out:
        for _ in range(-(-size // MIB)):
            out.write(block)
    file.unlink()
