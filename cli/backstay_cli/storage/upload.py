"""Puts a file under its path, whoever else does the same meanwhile."""

import base64
import hashlib
import time
from pathlib import Path

from backstay_cli.errors import CliError, Exit
from backstay_cli.storage.multipart import ONLY_NEW, PART_BYTES, Advance, Headers, Multipart, check
from backstay_cli.storage.store import CHECKSUM_HEADER, SHA256_HEADER, ConflictError, Store, Stored

PAUSES = (0.5, 1.0, 2.0, 4.0)
"""Seconds before another try after a conflict that left no object behind."""


def upload(
    store: Store, file: Path, path: str, size: int, sha256: str, advance: Advance, *, take_over: bool = False
) -> None:
    """Puts `file` under the model's path with its recorded digest (`sha256`: hex digits).

    An object that is there is replaced only with `take_over`; one that another push of the same bytes has just made is
    as good as ours. Raises CliError when there are other bytes, when the file's bytes are not that digest's any more,
    or when the storage fails.
    """
    headers = _headers(sha256) if take_over else _headers(sha256) | ONLY_NEW
    told: list[int] = []

    def tell(count: int) -> None:
        told.append(count)
        advance(count)

    for pause in (*PAUSES, None):
        try:
            with store.told_apart(store.location.key(path)):
                _send(store, file, path, size, sha256, headers, (lambda _: None) if told else tell)
            break
        except CliError as error:
            there = _there(store, path, error)
            if there is not None and (there.size, there.sha256) == (size, sha256):
                break
            others = there is not None and not take_over
            if pause is None or others or not isinstance(error, ConflictError):
                raise
            time.sleep(pause)
    advance(size - sum(told))


def _there(store: Store, path: str, error: CliError) -> Stored | None:
    """What is in the file's place after a failure that another push may be the reason of.

    Some storages answer with a 5xx when the object that is to be made is made by somebody else in the same moment.
    """
    if not isinstance(error, ConflictError) and error.code is not Exit.UNREACHABLE:
        return None
    try:
        return store.stat(path)
    except CliError:
        return None


def _headers(sha256: str) -> Headers:
    return {"Content-Type": "application/octet-stream", SHA256_HEADER: sha256}


def _send(store: Store, file: Path, path: str, size: int, sha256: str, headers: Headers, advance: Advance) -> None:
    if size > PART_BYTES:
        Multipart(store, path, size, sha256, headers).put(file, advance)
        return
    data = file.read_bytes()
    check(file, size, len(data), sha256, hashlib.sha256(data).hexdigest())
    # The storage compares the checksum before it keeps the object, and vouches for it afterwards.
    headers = headers | {CHECKSUM_HEADER: base64.b64encode(bytes.fromhex(sha256)).decode()}
    # put_object of the library can send neither a condition nor parts that are there already: hence its inner calls.
    store.client._put_object(store.location.bucket, store.location.key(path), data, headers)
    advance(size)
