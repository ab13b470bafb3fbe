"""Clients on the node: the steady load of the demo, and long token streams."""

import json
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.e2e.bench import MODEL, WHERE, Bench
from tests.e2e.story import answers, bucket
from tests.e2e.story.answers import Answer

CLIENT = Path(__file__).parents[2] / "tests" / "e2e" / "story" / "client" / "load.py"
KINDS = ("new", "kept")
ANSWERED_SECONDS = 10.0


class Load:
    """Two clients, one of each kind, as processes in the node's network."""

    def __init__(self, files: dict[str, Path], processes: list[subprocess.Popen[bytes]]) -> None:
        self._files, self._processes = files, processes
        self.ended = 0.0

    def wait(self, seconds: float) -> None:
        """Let the load go on for a while; it must not have ended by itself."""
        time.sleep(seconds)
        if any(process.poll() is not None for process in self._processes):
            raise SystemExit("a client of the load ended by itself")

    def answers(self) -> list[Answer]:
        """All requests that were sent long enough ago to be answered."""
        found = [answer for path in self._files.values() for answer in answers.parse(path.read_text())]
        return sorted((one for one in found if one.sent < self.ended), key=lambda one: one.sent)


@contextmanager
def load(bench: Bench, rate: float, folder: Path) -> Iterator[Load]:
    """The load as long as the block lasts."""
    cluster = bench.place.cluster
    if cluster is None:
        raise SystemExit("this part needs the project's own node: unset KUBECONFIG")
    inside = ["nsenter", f"--net={cluster.netns}", "--", sys.executable, str(CLIENT)]
    options = [f"--url={url(bench)}", f"--model={MODEL}", f"--rate={rate / len(KINDS)}", "--connections=8"]
    files = {kind: folder / f"load-{kind}.jsonl" for kind in KINDS}
    processes = []
    for kind, path in files.items():
        with path.open("wb") as out:
            processes.append(subprocess.Popen([*inside, *options, f"--kind={kind}", "--timeout=20"], stdout=out))
    running = Load(files, processes)
    try:
        yield running
        running.ended = time.time()
        time.sleep(ANSWERED_SECONDS)
    finally:
        for process in processes:
            process.terminate()
            process.wait(timeout=10)


def url(bench: Bench) -> str:
    """Where the active Service is."""
    address = bench.kube.get("service", bench.name, WHERE)["spec"]["clusterIP"]
    return f"http://{address}"


class Streams:
    """Long streams that begin before the block and are read to their end after it."""

    def __init__(self, bench: Bench, tokens: int, count: int) -> None:
        self._bench, self._tokens = bench, tokens
        self._url = f"{url(bench)}/v1/completions"
        self.seconds: list[float] = []
        self.problems: list[str] = []
        self._began = threading.Semaphore(0)
        self._threads = [threading.Thread(target=lambda: bucket.inside(bench.place, self._read)) for _ in range(count)]

    @property
    def cut(self) -> int:
        return len(self.problems)

    @property
    def shortest(self) -> float:
        return min(self.seconds, default=0.0)

    def __str__(self) -> str:
        said = f"{len(self._threads)} of {self.shortest:.0f} s and more, {self.cut} cut"
        return f"{said}: {'; '.join(self.problems[:3])}" if self.problems else said

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        for _ in self._threads:
            if not self._began.acquire(timeout=30):
                raise SystemExit(f"a stream did not begin: {self.problems}")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for thread in self._threads:
            thread.join(timeout=900)

    def _read(self) -> None:
        body = {"model": MODEL, "prompt": "abc", "max_tokens": self._tokens, "stream": True, "ignore_eos": True}
        headers = {"content-type": "application/json"}
        request = urllib.request.Request(self._url, json.dumps(body).encode(), headers)  # noqa: S310
        began, last = time.monotonic(), b""
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
                self._began.release()
                for line in answer:
                    last = line.strip() or last
        except OSError as error:
            self.problems.append(f"{type(error).__name__}: {error}")
            self._began.release()
            return
        self.seconds.append(time.monotonic() - began)
        if last != b"data: [DONE]":
            self.problems.append(f"ended with {last[:100]!r}")
