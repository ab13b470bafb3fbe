"""A pull that is under way: files with holes, and a journal of the bytes that were written.

The folder `.partial-<hex>` lies beside the place where the model goes and holds

    model/      the files under their own paths, and nothing else
    journal     one JSON object a line: {"path", "etag", "from", "to"}, written after the bytes it speaks of

A process may be killed anywhere: a torn last line is left out, and bytes without a line are fetched again. The
journal is never proof; every file is hashed whole before the folder is renamed.
"""

import contextlib
import json
import os
import shutil
import stat
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from backstay_runtime.pull.extents import Extents

PREFIX = ".partial-"


class Partial:
    """The partial folder of one digest; used under that digest's lock."""

    def __init__(self, models: Path, hex_digest: str) -> None:
        self.folder = models / f"{PREFIX}{hex_digest}"
        self.model = self.folder / "model"
        self._journal_path = self.folder / "journal"
        self._recorded: dict[str, tuple[str, Extents]] = {}
        self._journal: IO[str] | None = None
        self._lock = threading.Lock()

    def open(self, paths: Iterable[str]) -> None:
        """Takes up what an earlier pull left of these paths, or starts empty.

        Other files go: a folder that is renamed holds nothing that the manifest does not list.
        """
        if self.folder.exists() and not _only_plain_files(self.folder):
            shutil.rmtree(self.folder)
        self.model.mkdir(parents=True, exist_ok=True)
        if self._journal_path.exists():
            self._recorded = replay(self._journal_path.read_text(encoding="utf-8", errors="replace").splitlines())
        wanted = set(paths)
        for file in list(_files(self.model)):
            if file.relative_to(self.model).as_posix() not in wanted:
                file.unlink()
        self._journal = self._journal_path.open("a", encoding="utf-8")
        # A torn last line must not swallow the next one.
        self._write({})

    def have(self, path: str, etag: str, size: int) -> Extents:
        """The bytes of a file that an earlier pull of the same object wrote; none if anything about it is odd."""
        known, extents = self._recorded.get(path, ("", Extents()))
        file = self.model / path
        if known != etag or not file.is_file() or not extents.end <= file.stat().st_size == size:
            return Extents()
        return extents

    def start(self, path: str, size: int) -> Path:
        """The file's place, of its full size, with its folders."""
        file = self.model / path
        file.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        try:
            os.ftruncate(descriptor, size)
        finally:
            os.close(descriptor)
        return file

    def reset(self, path: str) -> None:
        """Forgets a file's bytes."""
        with contextlib.suppress(FileNotFoundError):
            (self.model / path).unlink()
        self._write({"path": path, "etag": "", "from": 0, "to": 0})
        self._recorded.pop(path, None)

    def record(self, path: str, etag: str, start: int, end: int) -> None:
        """Notes that the bytes [start, end) of a file were written."""
        self._write({"path": path, "etag": etag, "from": start, "to": end})

    def close(self) -> None:
        """Ends writing; the folder stays for the next try."""
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    def discard(self) -> None:
        """Removes the folder with all that was fetched."""
        self.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _write(self, entry: dict[str, str | int]) -> None:
        with self._lock:
            if self._journal is not None:
                self._journal.write(json.dumps(entry) + "\n" if entry else "\n")
                self._journal.flush()


def replay(lines: Iterable[str]) -> dict[str, tuple[str, Extents]]:
    """For each path the last ETag of the journal and the bytes written under it. Pure; odd lines are left out."""
    recorded: dict[str, tuple[str, list[tuple[int, int]]]] = {}
    for line in lines:
        try:
            entry = json.loads(line)
            path, etag = str(entry["path"]), str(entry["etag"])
            interval = (int(entry["from"]), int(entry["to"]))
        except (ValueError, KeyError, TypeError):
            continue
        if interval[0] < 0 or path not in recorded or recorded[path][0] != etag:
            recorded[path] = (etag, [])
        if interval[0] >= 0:
            recorded[path][1].append(interval)
    return {path: (etag, Extents(intervals)) for path, (etag, intervals) in recorded.items()}


def _files(folder: Path) -> Iterator[Path]:
    for root, _, names in os.walk(folder):
        yield from (Path(root) / name for name in names)


def _only_plain_files(folder: Path) -> bool:
    """Links, sockets and the like are never ours; a link would let bytes be written elsewhere."""
    modes = [folder.lstat().st_mode]
    for root, folders, names in os.walk(folder):
        modes += [(Path(root) / name).lstat().st_mode for name in (*folders, *names)]
    return stat.S_ISDIR(modes[0]) and all(stat.S_ISDIR(mode) or stat.S_ISREG(mode) for mode in modes)
