"""Fetches a manifest's files into the partial folder: ranges in parallel, hashed as their bytes arrive.

Two pools work on the files in the manifest's order. The first fetches pieces and writes them; the second takes a file
each and hashes it in order, out of the page cache, right behind the writes: reading there costs a tenth of the hash,
and less than memory in which pieces would wait. How many pieces may be on their way or wait is bounded by the slots. A
piece gets its slot before a later one: else all of them could be taken by pieces that wait for one without.
"""

import os
import random
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TypeVar

from backstay_contract.manifest import MAX_BYTES, Manifest, ModelFile
from backstay_contract.names import MANIFEST_FILE
from backstay_contract.termination import GaveUp

from backstay_runtime.pull.errors import ObjectChangedError, PullError, TransientError, mismatch
from backstay_runtime.pull.extents import Interval
from backstay_runtime.pull.filefetch import FileFetch, Stop, StoppedError
from backstay_runtime.pull.hashing import FileHash
from backstay_runtime.pull.log import Log
from backstay_runtime.pull.partial import Partial
from backstay_runtime.pull.progress import Progress
from backstay_runtime.pull.retry import Backoff, Retries
from backstay_runtime.pull.slots import Slots
from backstay_runtime.pull.storage import Storage

Result = TypeVar("Result")
Room = Callable[[int, int], AbstractContextManager[None]]
"""room(bytes still to be written, bytes of the model)"""

MIB = 1024 * 1024
ROUNDS = 3
"""Times that a file is begun, if its object is replaced under the download again and again."""


@dataclass(frozen=True)
class Options:
    """How a download goes about it."""

    requests: int = 4
    """Ranges fetched at the same time."""
    hashers: int = 4
    """Files hashed at the same time."""
    piece_bytes: int = 32 * MIB
    """Of one request. A server answers few long ranges for less than many short ones: MinIO spends a third less on
    32 MiB than on 8. Longer ones gain nothing, and the hash can only follow the first of those under way."""
    pieces: int = 8
    """Pieces that are on their way or wait to be hashed."""
    record_bytes: int = MIB
    """At most so much of each request is fetched again after a kill."""
    backoff: Backoff = field(default_factory=Backoff)


class Download:
    """One download of a manifest's files."""

    def __init__(self, storage: Storage, partial: Partial, options: Options, progress: Progress, log: Log) -> None:
        self._storage, self._partial = storage, partial
        self._options, self._progress, self._log = options, progress, log
        self._stop = Stop()
        self._slots = Slots(options.pieces)

    def manifest(self) -> bytes:
        """The first MAX_BYTES + 1 bytes of manifest.json, unchecked. Raises PullError."""
        return self._retries().call(lambda: self._storage.small(MANIFEST_FILE, MAX_BYTES))

    def run(self, manifest: Manifest, room: Room) -> None:
        """Leaves every file whole, with the manifest's digest, in the partial folder.

        Room is made before the first byte is asked for, and kept by giving the files their sizes. Raises PullError.
        """
        files: Sequence[ModelFile] = manifest.files
        for turn in range(ROUNDS):
            fetches = self._look_up(files)
            if turn > 0:
                self._place(fetches)
            else:
                have = sum(fetch.have for fetch in fetches)
                self._progress.expect(manifest.size, have)
                with room(manifest.size - have, manifest.size):
                    self._place(fetches)
            self._fetch(fetches)
            files = [fetch.file for fetch in fetches if not fetch.whole]
            if not files:
                return
            for file in files:
                self._partial.reset(file.path)
        path = files[0].path
        raise PullError(
            GaveUp.DIGEST_MISMATCH,
            f"{path}: the object was replaced {ROUNDS} times while it was read; a pushed model must not be written to",
            path=path,
            expected=files[0].sha256,
        )

    def _look_up(self, files: Iterable[ModelFile]) -> list[FileFetch]:
        """Every object exists and has its size, or the pull ends before a weight byte is asked for."""
        with ThreadPoolExecutor(self._options.requests, "head") as pool:
            found = [pool.submit(self._guarded, self._head, file) for file in files]
        self._raise_first_error()
        return [fetch for one in found if (fetch := one.result()) is not None]

    def _head(self, file: ModelFile) -> FileFetch:
        facts = self._retries().call(lambda: self._storage.facts(file.path))
        if facts.size != file.size:
            raise mismatch(file.path, f"{file.size} bytes", f"{facts.size} bytes", what="size")
        return FileFetch(file, facts, self._partial.have(file.path, facts.etag, file.size))

    def _place(self, fetches: Iterable[FileFetch]) -> None:
        for fetch in fetches:
            self._partial.start(fetch.file.path, fetch.file.size)

    def _fetch(self, fetches: Iterable[FileFetch]) -> None:
        with (
            ThreadPoolExecutor(self._options.requests, "get") as getting,
            ThreadPoolExecutor(self._options.hashers, "hash") as hashing,
        ):
            for fetch in fetches:
                hashing.submit(self._guarded, self._hash, fetch)
                for piece in fetch.pieces(self._options.piece_bytes):
                    if not self._slots.take(self._stop):
                        break
                    if not fetch.begin(piece):
                        self._slots.give(1)
                        break
                    getting.submit(self._guarded, self._get, fetch, piece)
        self._raise_first_error()

    def _get(self, fetch: FileFetch, piece: Interval) -> None:
        """Fetches one piece; what arrived before a failure is kept on disk."""
        path = self._partial.model / fetch.file.path
        descriptor = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        cursor, retries = Cursor(piece.start), self._retries()
        try:
            while cursor.at < piece.end:
                began = cursor.at
                try:
                    self._stream(fetch, descriptor, cursor, piece.end)
                except TransientError as error:
                    if cursor.at - began >= MIB:
                        retries.progressed()
                    retries.failed(error)
        except ObjectChangedError:
            self._log("object replaced while it was read", level="warning", path=fetch.file.path)
            fetch.replaced()
        finally:
            os.close(descriptor)

    def _stream(self, fetch: FileFetch, descriptor: int, cursor: "Cursor", end: int) -> None:
        """One request's bytes to disk, from the cursor on."""
        recorded = cursor.at
        with self._storage.reading(fetch.file.path, cursor.at, end, fetch.facts.etag) as chunks:
            try:
                for data in chunks:
                    if self._stop() or fetch.changed:
                        raise StoppedError
                    _write_all(descriptor, data, cursor.at)
                    cursor.at += len(data)
                    if cursor.at - recorded >= self._options.record_bytes:
                        self._note(fetch, recorded, cursor.at)
                        recorded = cursor.at
            finally:
                if cursor.at > recorded:
                    self._note(fetch, recorded, cursor.at)

    def _note(self, fetch: FileFetch, start: int, end: int) -> None:
        """Bytes are on disk: for the next process, for the hash, and for who watches."""
        self._partial.record(fetch.file.path, fetch.facts.etag, start, end)
        self._progress.fetched(end - start)
        fetch.written(start, end)

    def _hash(self, fetch: FileFetch) -> None:
        """Follows the file's bytes as they come, then compares."""
        hashed = FileHash(self._partial.model / fetch.file.path)
        try:
            while hashed.at < fetch.file.size:
                end = fetch.on_disk_beyond(hashed.at, self._stop)
                hashed.up_to(end, self._stop)
                if hashed.at < end:
                    break  # shorter on disk than recorded: the digest will say so
                self._slots.give(fetch.hashed(end))
            self._compare(fetch, hashed.digest())
        finally:
            hashed.close()
            self._slots.give(fetch.close())

    def _compare(self, fetch: FileFetch, actual: str) -> None:
        file = fetch.file
        if actual == file.sha256:
            fetch.whole = True
        elif fetch.have == 0:
            raise mismatch(file.path, file.sha256, actual)
        else:
            # Bytes of an earlier process may have been lost with the node's power; only a file that came whole
            # in this one proves anything about the storage.
            self._log("resumed file has another digest; fetching it anew", level="warning", path=file.path)

    def _retries(self) -> Retries:
        return Retries(self._options.backoff, self._stop.wait, random.random, self._log)

    def _guarded(self, work: Callable[..., Result], *arguments: object) -> Result | None:
        """Runs work in a pool: its error stops the whole download."""
        try:
            return None if self._stop() else work(*arguments)
        except StoppedError:
            return None
        except Exception as error:  # told by _raise_first_error
            self._stop.fail(error)
            return None

    def _raise_first_error(self) -> None:
        if self._stop.error is not None:
            raise self._stop.error


@dataclass
class Cursor:
    """How far a piece has come, known also after a failure."""

    at: int


def _write_all(descriptor: int, data: bytes, at: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, at)
        view, at = view[written:], at + written
