"""An object that is sent in parts, so that a killed upload goes on where it stopped.

An unfinished upload is taken up only if it was begun for the same bytes: its last part, which never becomes part of the
object, says for which. A part is kept when the storage reports our size and MD5 for it (its ETag, on storages that do
not encrypt; on others everything is sent again). That only saves time: the file is hashed in one pass while its parts
are sent, and every pull hashes what it gets.
"""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import Semaphore
from xml.etree.ElementTree import Element, SubElement, tostring

from minio.datatypes import Part, Upload
from minio.error import S3Error

from backstay_cli.errors import refused
from backstay_cli.storage.store import Store

MIB = 1024 * 1024
PART_BYTES = 16 * MIB
MAX_PARTS = 9_999
MARK = MAX_PARTS + 1
"""Number of the part that holds the digest of the bytes that an upload was begun for."""
PARALLEL = 4

Headers = dict[str, str | list[str] | tuple[str]]
ONLY_NEW: Headers = {"If-None-Match": "*"}
"""Check and write in one step: two pushes to one place cannot both write."""

Advance = Callable[[int], None]
"""Called with the number of bytes that are now in the storage."""


def part_bytes(size: int) -> int:
    """Bytes of each part of a file but the last, in whole MiB: few enough parts for S3. Pure."""
    return max(PART_BYTES, -(-size // (MAX_PARTS * MIB)) * MIB)


def check(file: Path, size: int, found: int, sha256: str, actual: str) -> None:
    """Raises CliError unless the bytes that were sent are those that were hashed before."""
    if (found, actual) != (size, sha256):
        raise refused(f"{file}: changed while it was pushed; push again when nobody writes to it")


class Multipart:
    """One object that is sent in parts."""

    def __init__(self, store: Store, path: str, size: int, sha256: str, headers: Headers) -> None:
        self._client, self._bucket = store.client, store.location.bucket
        self._key = store.location.key(path)
        self._size, self._sha256, self._headers = size, sha256, headers
        self._part_bytes, self._mark = part_bytes(size), sha256.encode()

    def put(self, file: Path, advance: Advance) -> None:
        """Sends what is missing, and makes the object. Raises CliError or the client's errors."""
        upload_id, present = self._unfinished() or (self._begin(), {})
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
            self._abort(upload_id)
            check(file, self._size, total, self._sha256, hashed.hexdigest())
        try:
            self._complete(upload_id, parts)
        except S3Error as error:
            if error.code == "PreconditionFailed":  # the object is there: nobody can complete this upload any more
                self._abort(upload_id)
            raise

    def _complete(self, upload_id: str, parts: Iterable[Part]) -> None:
        root = Element("CompleteMultipartUpload")
        for part in parts:
            entry = SubElement(root, "Part")
            SubElement(entry, "PartNumber").text = str(part.part_number)
            SubElement(entry, "ETag").text = f'"{part.etag}"'
        condition = {name: value for name, value in self._headers.items() if name in ONLY_NEW}
        self._client._execute(
            "POST",
            self._bucket,
            self._key,
            body=tostring(root),
            headers={"Content-Type": "application/xml"} | condition,
            query_params={"uploadId": upload_id},
        )

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

    def _begin(self) -> str:
        upload_id = self._client._create_multipart_upload(self._bucket, self._key, dict(self._headers))
        self._client._upload_part(self._bucket, self._key, self._mark, None, upload_id, MARK)
        return upload_id

    def _unfinished(self) -> tuple[str, dict[int, Part]] | None:
        """The newest unfinished upload of the same bytes, with its parts. Those of others are left to them."""
        for one in sorted(self._uploads(), key=lambda one: str(one.initiated_time), reverse=True):
            upload_id = str(one.upload_id)
            parts = {part.part_number: part for part in self._present(upload_id)}
            mark = parts.pop(MARK, None)
            if mark is not None and mark.etag == _md5(self._mark):
                return upload_id, parts
        return None

    def _abort(self, upload_id: str) -> None:
        self._client._abort_multipart_upload(self._bucket, self._key, upload_id)

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
