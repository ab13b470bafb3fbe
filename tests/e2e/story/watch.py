"""A running watch: every state of the objects that was seen, with the time of its sight."""

import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import IO, Any, Self

from tests.e2e.story.history import Seen
from tests.e2e.story.kube import Kube

_AGAIN_S = 0.5


class Watch:
    """Follows `kubectl get … --watch` in a thread, and begins anew when the connection ends."""

    def __init__(self, kube: Kube, *arguments: str) -> None:
        self._command = kube.command("get", *arguments, "--watch", "--output-watch-events", "--output=json")
        self._environment = dict(kube.environment)
        self._changed = threading.Condition()
        self._seen: list[Seen] = []
        self._ended = False
        self._process: subprocess.Popen[str] | None = None
        self._thread = threading.Thread(target=self._follow, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with self._changed:
            self._ended = True
            if self._process is not None:
                self._process.terminate()
        self._thread.join(timeout=10)

    @property
    def seen(self) -> list[Seen]:
        """All sights so far."""
        with self._changed:
            return list(self._seen)

    def wait(self, wanted: Callable[[dict[str, Any]], bool], since: float, within_s: float) -> Seen | None:
        """The first sight from `since` on (Unix seconds) that is wanted; None when there is none within that time."""
        until = time.monotonic() + within_s
        looked = 0
        with self._changed:
            while True:
                for seen in self._seen[looked:]:
                    if seen.at >= since and wanted(seen.object):
                        return seen
                looked = len(self._seen)
                left = until - time.monotonic()
                if left <= 0:
                    return None
                self._changed.wait(min(left, 1.0))

    def _follow(self) -> None:
        while True:
            with self._changed:
                if self._ended:
                    return
                self._process = process = subprocess.Popen(
                    self._command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=self._environment
                )
            with process:
                assert process.stdout is not None
                for event in documents(process.stdout):
                    self._take(event)
            time.sleep(_AGAIN_S)

    def _take(self, event: dict[str, Any]) -> None:
        if event.get("type") in ("ADDED", "MODIFIED"):
            with self._changed:
                self._seen.append(Seen(time.time(), event["object"]))
                self._changed.notify_all()


def documents(stream: IO[str]) -> Iterator[dict[str, Any]]:
    """JSON documents that follow one another, one a line or indented: a document ends on a line that is its closing
    brace, or that opens one as well."""
    held: list[str] = []
    for line in stream:
        held.append(line)
        said = line.rstrip()
        if said == "}" or (said.startswith("{") and said.endswith("}")):
            yield json.loads("".join(held))
            held.clear()
