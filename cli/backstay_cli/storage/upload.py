"""Uploads a file so that a killed upload goes on where it stopped.

A part is kept when the storage reports our size and MD5 for it (its ETag, on storages that do not encrypt). That
only saves time: the file is hashed in one pass while its parts are sent, and every pull hashes what it gets.
"""

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import Semaphore

from minio.datatypes import Part, Upload
from minio.error import S3Error

from backstay_cli.errors import refused
from backstay_cli.storage.store import SHA256_HEADER, Store

MIB = 1024 * 1024
PART_BYTES = 16 * MIB
MAX_PARTS = 10_000
PARALLEL = 4

Advance = Callable[[int], None]
"""Called with the number of bytes that are now in the storage."""


def part_bytes(size: int) -> int:
    """Bytes of each part of a file but the last, in whole MiB: few enough parts for S3. Pure."""
    return max(PART_BYTES, -(-size // (MAX_PARTS * MIB)) * MIB)


def upload(store: Store, file: Path, path: str, size: int, sha256: str, advance: Advance) -> None:
    """Puts `file` under the model's path with its recorded digest (`sha256`: hex digits).

    Raises CliError when the file's bytes are not that digest's any more, or the storage fails.
    """
    with store.told_apart(store.location.key(path)):
        if size <= PART_BYTES:
            _put_whole(store, file, path, size, sha256)
            advance(size)
        else:
            one = _Multipart(store, path, size, sha256)
            one.put(file, advance, resume=True)
            stored = store.stat(path)
            if stored is None or stored.sha256 != sha256:
                # The unfinished upload that was taken up had been begun for other bytes.
                one.put(file, lambda _: None, resume=False)


def _headers(sha256: str) -> dict[str, str | list[str] | tuple[str]]:
    return {"Content-Type": "application/octet-stream", SHA256_HEADER: sha256}


def _put_whole(store: Store, file: Path, path: str, size: int, sha256: str) -> None:
    data = file.read_bytes()
    _check(file, size, len(data), sha256, hashlib.sha256(data).hexdigest())
    store.client._put_object(store.location.bucket, store.location.key(path), data, _headers(sha256))


def _check(file: Path, size: int, found: int, sha256: str, actual: str) -> None:
    if (found, actual) != (size, sha256):
        raise refused(f"{file}: changed while it was pushed; push again when nobody writes to it")


class _Multipart:
    """One object that is sent in parts."""

    def __init__(self, store: Store, path: str, size: int, sha256: str) -> None:
        self._client, self._bucket = store.client, store.location.bucket
        self._key = store.location.key(path)
        self._size, self._sha256 = size, sha256
        self._part_bytes = part_bytes(size)

    def put(self, file: Path, advance: Advance, *, resume: bool) -> None:
        upload_id, present = self._unfinished(keep=resume)
        hashed, total = hashlib.sha256(), 0
        room = Semaphore(PARALLEL + 1)  # bounds the parts in memory
        sent: list[Future[Part]] = []
        with ThreadPoolExecutor(PARALLEL, "upload") as pool:
            try:
                for number, data in enumerate(self._parts(file), start=1):
                    hashed.update(data)
                    total += len(data)
                    room.acquire()
                    future = pool.submit(self._send, upload_id, number, data, present, advance)
                    future.add_done_callback(lambda _: room.release())
                    sent.append(future)
                    if any(one.done() and one.exception() for one in sent[-PARALLEL - 2 :]):
                        break
                parts = [one.result() for one in sent]
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        if (total, hashed.hexdigest()) != (self._size, self._sha256):
            self._client._abort_multipart_upload(self._bucket, self._key, upload_id)
            _check(file, self._size, total, self._sha256, hashed.hexdigest())
        self._client._complete_multipart_upload(self._bucket, self._key, upload_id, parts)

    def _parts(self, file: Path) -> Iterator[bytes]:
        with file.open("rb", buffering=0) as opened:
            while data := _read_full(opened.fileno(), self._part_bytes):
                yield data

    def _send(self, upload_id: str, number: int, data: bytes, present: Mapping[int, Part], advance: Advance) -> Part:
        there = present.get(number)
        if there is None or (there.size, there.etag) != (len(data), _md5(data)):
            etag = self._client._upload_part(self._bucket, self._key, data, None, upload_id, number)
            there = Part(number, etag)
        advance(len(data))
        return there

    def _unfinished(self, *, keep: bool) -> tuple[str, dict[int, Part]]:
        """The newest unfinished upload of this object with its parts, or a new one. Others are given up."""
        mine = sorted(self._uploads(), key=lambda one: str(one.initiated_time))
        taken = mine.pop() if mine and keep else None
        for old in mine:
            self._client._abort_multipart_upload(self._bucket, self._key, str(old.upload_id))
        if taken is not None and taken.upload_id is not None:
            return taken.upload_id, {part.part_number: part for part in self._present(taken.upload_id)}
        return self._client._create_multipart_upload(self._bucket, self._key, _headers(self._sha256)), {}

    def _uploads(self) -> list[Upload]:
        try:
            found = self._client._list_multipart_uploads(self._bucket, prefix=self._key).uploads
        except S3Error:  # not allowed to list, or not implemented: nothing is taken up
            return []
        return [one for one in found if one.object_name == self._key]

    def _present(self, upload_id: str) -> Iterator[Part]:
        marker: str | None = None
        while True:
            page = self._client._list_parts(self._bucket, self._key, upload_id, part_number_marker=marker)
            yield from page.parts
            if not page.is_truncated or not page.next_part_number_marker:
                return
            marker = str(page.next_part_number_marker)


def _md5(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


def _read_full(descriptor: int, count: int) -> bytes:
    """`count` bytes, or fewer at the file's end."""
    pieces = []
    while count > 0 and (data := os.read(descriptor, count)):
        pieces.append(data)
        count -= len(data)
    return b"".join(pieces)
