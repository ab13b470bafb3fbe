"""A storage in memory that fails as it is told, and models small enough to read."""

import hashlib
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from backstay_contract import manifest as manifests
from backstay_contract.location import Location
from backstay_contract.manifest import Architecture, Manifest, ModelFile
from backstay_contract.names import MANIFEST_FILE
from backstay_contract.termination import GaveUp
from backstay_runtime.pull.endpoint import Endpoint
from backstay_runtime.pull.errors import ObjectChangedError, PullError, TransientError
from backstay_runtime.pull.settings import Settings
from backstay_runtime.pull.storage import Facts

CHUNK = 100

CONTENT: Mapping[str, bytes] = {
    "model.safetensors": bytes(range(256)) * 40,
    "config.json": b"{}",
    "tokenizer/vocab.txt": "ä b c\n".encode() * 50,
    "empty.txt": b"",
}


def manifest_bytes(content: Mapping[str, bytes] = CONTENT, **fields: object) -> bytes:
    files = [
        ModelFile(path=path, size=len(data), sha256=hashlib.sha256(data).hexdigest())
        for path, data in sorted(content.items())
    ]
    values = {"name": "m", "version": "1", "files": files, "architecture": Architecture(family="llama")}
    return manifests.dump(Manifest.model_validate(values | fields))


def settings_for(models: Path, data: bytes) -> Settings:
    return Settings(
        location=Location("models", "m/1"),
        digest=manifests.digest_of(data),
        endpoint=Endpoint(False, "storage", 9000),
        region="us-east-1",
        credentials=None,
        models=models,
        profile=None,
    )


@dataclass
class FakeStorage:
    """The objects of one model. `on_read` is called before each chunk with path, offset and the count of reads."""

    objects: dict[str, bytes]
    on_read: Callable[[str, int], None] = lambda path, offset: None
    requests: list[tuple[str, int, int]] = field(default_factory=list)
    bytes_read: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def facts(self, path: str) -> Facts:
        data = self._object(path)
        return Facts(len(data), hashlib.md5(data).hexdigest())

    def small(self, path: str, most: int) -> bytes:
        return self._object(path)[: most + 1]

    @contextmanager
    def reading(self, path: str, start: int, end: int, etag: str) -> Iterator[Iterator[bytes]]:
        data = self._object(path)
        if hashlib.md5(data).hexdigest() != etag:
            raise ObjectChangedError(path)
        with self._lock:
            self.requests.append((path, start, end))
        yield self._chunks(path, data, start, end)

    def _chunks(self, path: str, data: bytes, start: int, end: int) -> Iterator[bytes]:
        for at in range(start, end, CHUNK):
            self.on_read(path, at)
            part = data[at : min(at + CHUNK, end)]
            with self._lock:
                self.bytes_read += len(part)
            yield part

    def _object(self, path: str) -> bytes:
        if path not in self.objects:
            raise PullError(GaveUp.MODEL_NOT_FOUND, f"{path} does not exist")
        return self.objects[path]


def model_in_storage(content: Mapping[str, bytes] = CONTENT, **fields: object) -> FakeStorage:
    return FakeStorage({MANIFEST_FILE: manifest_bytes(content, **fields), **content})


class FailsOnce:
    """Fails the first read at or beyond an offset of a path."""

    def __init__(self, path: str, offset: int, error: Exception | None = None) -> None:
        self._path, self._offset, self._left = path, offset, True
        self._error = error or TransientError("connection reset")

    def __call__(self, path: str, offset: int) -> None:
        if self._left and path == self._path and offset >= self._offset:
            self._left = False
            raise self._error


class Lines:
    """A log that can be read."""

    def __init__(self) -> None:
        self.said: list[tuple[str, str, dict[str, object]]] = []

    def __call__(self, message: str, level: str = "info", **fields: object) -> None:
        self.said.append((level, message, fields))

    def messages(self, level: str) -> list[str]:
        return [message for one, message, _ in self.said if one == level]
