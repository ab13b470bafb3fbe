"""The models folder as a cache that pods share: what lies in it, and what goes to make room.

Beside each model lie files of its digest: `.lock-` is held by a pull or an eviction, `.use-` by the servers (see
`hold`), and `.idle-` says since when nobody was seen to hold the model. A server whose container restarts lets go of
its model for up to five minutes, so a model goes only after it was idle for longer than that.
"""

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from backstay_runtime.hold import hold_file
from backstay_runtime.pull.checks import RESERVE_BYTES, no_room
from backstay_runtime.pull.lock import at_once, is_free, lock_file, open_lock, waiting_for
from backstay_runtime.pull.log import Log
from backstay_runtime.pull.partial import PREFIX as PARTIAL

GRACE_SECONDS = 360.0
"""More than the five minutes that a kubelet waits at most before it starts a container again."""
POLL_SECONDS = 2.0
DOOMED = ".evicted-"
IDLE = ".idle-"
HEX_DIGITS = 64


class Entry(NamedTuple):
    """A model in the cache, whole or partial."""

    hex_digest: str
    size: int
    """Bytes that its files have or will have."""
    unwritten: int
    """Bytes of them that take no room on the disk yet."""
    used_at: float
    """When a pull last asked for it."""
    idle_since: float | None
    """None while a server or a pull has it."""


class Choice(NamedTuple):
    """What makes room: the models to take away now, or the time at which there will be some."""

    evict: tuple[str, ...] = ()
    wait_until: float | None = None


def choose(entries: Sequence[Entry], lacking: int, now: float) -> Choice | None:
    """Which models go so that `lacking` more bytes are free: the least recently used first. Pure.

    None when even all idle models together are not enough.
    """
    if lacking <= 0:
        return Choice()
    idle = [(entry, since) for entry in entries if (since := entry.idle_since) is not None]
    chosen, freed, ripe_at = [], 0, now
    for entry, since in sorted(idle, key=lambda pair: pair[0].used_at):
        if freed < lacking:
            chosen.append(entry.hex_digest)
            freed += entry.size
            ripe_at = max(ripe_at, since + GRACE_SECONDS)
    if freed < lacking:
        return None
    return Choice(tuple(chosen)) if ripe_at <= now else Choice(wait_until=ripe_at)


class Cache:
    """The models folder of a pull of `hex_digest`."""

    def __init__(
        self,
        models: Path,
        hex_digest: str,
        budget: int | None,
        log: Log,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`budget`: bytes that all models together may take; None: what the disk holds."""
        self._models, self._mine, self._budget = models, hex_digest, budget
        self._log, self._clock, self._sleep = log, clock, sleep

    def note_use(self) -> None:
        """The pull's own model is asked for now."""
        file = hold_file(self._models, self._mine)
        os.close(open_lock(file))
        os.utime(file)
        (self._models / f"{IDLE}{self._mine}").unlink(missing_ok=True)

    @contextmanager
    def room(self, need: int, total: int) -> Iterator[None]:
        """Room for `need` more bytes of a model that has `total`, while the caller gives its files their sizes.

        Takes away models that nobody uses. Raises PullError (InsufficientStorage).
        """
        while True:
            with waiting_for(self._models / ".lock-cache", self._log, "another pod makes room"):
                wait_until = self._make_room(need, total)
                if wait_until is None:
                    yield
                    return
            self._log("models in the cache were in use a moment ago; waiting to take one away",
                      need=need, in_seconds=round(wait_until - self._clock()))  # fmt: skip
            while self._clock() < wait_until:
                self._sleep(min(POLL_SECONDS, max(0.0, wait_until - self._clock())))

    def _make_room(self, need: int, total: int) -> float | None:
        """None when there is room now, else when to look again."""
        self._clear()
        entries, now = [self._entry(hex_digest) for hex_digest in self._others()], self._clock()
        room = free(self._models) - sum(entry.unwritten for entry in entries)
        if self._budget is not None:
            room = min(room, self._budget - sum(entry.size for entry in entries) - (total - need))
        lacking = need + RESERVE_BYTES - room if need > 0 else 0
        choice = choose(entries, lacking, now)
        if choice is None:
            held = sum(entry.size for entry in entries if entry.idle_since is None)
            raise no_room(self._models, need + RESERVE_BYTES, max(0, room), held)
        for hex_digest in choice.evict:
            self._evict(hex_digest)
        return choice.wait_until

    def _others(self) -> list[str]:
        names = {path.name.removeprefix(PARTIAL) for path in self._models.iterdir() if path.is_dir()}
        return sorted(name for name in names if len(name) == HEX_DIGITS and name != self._mine)

    def _entry(self, hex_digest: str) -> Entry:
        size = written = 0
        for folder in self._folders(hex_digest):
            for root, _, names in os.walk(folder):
                for name in names:
                    with contextlib.suppress(FileNotFoundError):
                        found = (Path(root) / name).lstat()
                        size += found.st_size
                        written += min(found.st_size, found.st_blocks * 512)
        used = hold_file(self._models, hex_digest)
        used_at = used.stat().st_mtime if used.exists() else 0.0
        return Entry(hex_digest, size, size - written, used_at, self._idle_since(hex_digest))

    def _idle_since(self, hex_digest: str) -> float | None:
        """Notes what is seen: the next pull, of whatever model, goes on from it."""
        mark = self._models / f"{IDLE}{hex_digest}"
        files = (lock_file(self._models, hex_digest), hold_file(self._models, hex_digest))
        if not all(is_free(file) for file in files):
            mark.unlink(missing_ok=True)
            return None
        if not mark.exists():
            mark.touch()
            os.utime(mark, (self._clock(), self._clock()))
        return mark.stat().st_mtime

    def _folders(self, hex_digest: str) -> tuple[Path, Path]:
        return self._models / hex_digest, self._models / f"{PARTIAL}{hex_digest}"

    def _evict(self, hex_digest: str) -> None:
        """A server or a pull that came in between keeps its model."""
        mark = self._models / f"{IDLE}{hex_digest}"
        with (
            at_once(lock_file(self._models, hex_digest)) as no_pull,
            at_once(hold_file(self._models, hex_digest)) as no_server,
        ):
            if not (no_pull and no_server and mark.exists()):
                return
            self._log("taking a model that nobody uses out of the cache", digest=f"sha256:{hex_digest}")
            for folder in self._folders(hex_digest):
                with contextlib.suppress(FileNotFoundError):
                    folder.rename(self._models / f"{DOOMED}{folder.name}")
            mark.unlink()
        self._clear()

    def _clear(self) -> None:
        """What an eviction left that was killed."""
        for folder in self._models.glob(f"{DOOMED}*"):
            shutil.rmtree(folder, ignore_errors=True)


def free(folder: Path) -> int:
    """Bytes that an ordinary user may still write on the folder's volume."""
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize
