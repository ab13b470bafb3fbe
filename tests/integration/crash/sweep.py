"""Plays each play once for each of its writes and each side of the write, several at the same time, and compares."""

import queue
import threading
import time
import traceback
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from backstay_cluster.control_plane import ControlPlane

from tests.integration.crash import end_state
from tests.integration.crash.end_state import State
from tests.integration.crash.forked_operator import ForkedOperator, Zygote
from tests.integration.crash.plays import REQUESTS_PER_SECOND, Play
from tests.integration.crash.proxy import Proxy, Trap, When, Write
from tests.integration.harness.api import Access, patch
from tests.integration.harness.fake_kubelet import FakeKubelet
from tests.integration.harness.story import Story

QUIET_SECONDS = 1.2
"""No write for so long, and it has come to rest: longer than the pause between two passes that wait for something."""
PORTS = 17000
"""The first of the proxies' ports; the operators' own come from OperatorProcess."""
WATCHES = '"message": "watching '
"""What an operator logs when it begins to look at its resources."""
OVER_SECONDS = 120.0


@dataclass(frozen=True)
class Point:
    """Where the operator is killed; `number` 0: nowhere."""

    play: Play
    number: int
    when: When


@dataclass(frozen=True)
class Outcome:
    """What came of it."""

    point: Point
    write: Write | None
    """The write that it was killed at; None where the run had fewer."""
    writes: int
    state: State
    events: Counter[str]
    """How often each reason was told."""
    seconds: float
    problem: str = ""
    """What the run itself could not do."""


@dataclass(frozen=True)
class Stage:
    """What all runs share."""

    plane: ControlPlane
    access: Access
    operators_access: Access
    """With the operator's rights only."""
    kubelet: FakeKubelet
    folder: Path


class Lane:
    """Runs one point after another, with a proxy of its own."""

    def __init__(self, stage: Stage, number: int) -> None:
        self._stage = stage
        self._number = number
        self._proxy = Proxy(stage.plane, stage.access, PORTS + number)
        self._folder = stage.folder / f"lane-{number}"
        self._folder.mkdir(parents=True, exist_ok=True)
        self._kubeconfig = self._folder / "kubeconfig"
        self._kubeconfig.write_text(replace(stage.operators_access, server=self._proxy.server).kubeconfig())
        self._zygote = Zygote(stage.plane, self._kubeconfig)

    def __enter__(self) -> "Lane":
        self._proxy.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._zygote.end()
        self._proxy.stop()

    def run(self, point: Point) -> Outcome:
        """One whole run in a namespace of its own."""
        began = time.monotonic()
        namespace = f"crash-{uuid.uuid4().hex[:10]}"
        operator = self._operator(namespace)
        with self._stage.access.client() as client:
            client.post("/api/v1/namespaces", json={"metadata": {"name": namespace}}).raise_for_status()
            story = Story(client, namespace, self._stage.kubelet, operator)
            try:
                return replace(self._play(story, point), seconds=time.monotonic() - began)
            except Exception as error:
                said = "".join(traceback.format_exception_only(error))[:6000]
                trap = self._proxy.trap
                return Outcome(point, trap.sprung, trap.counted, {}, Counter(), time.monotonic() - began, said)
            finally:
                operator.kill()
                if client.get(story.path).is_success:
                    patch({"metadata": {"finalizers": None}}, client, story.path)
                client.delete(f"/api/v1/namespaces/{namespace}")

    def _operator(self, namespace: str) -> ForkedOperator:
        folder = self._folder / namespace
        folder.mkdir()
        return ForkedOperator(
            self._stage.plane,
            self._kubeconfig,
            folder,
            {"BACKSTAY_WATCH_NAMESPACES": namespace},
            number=100 + self._number,
            zygote=self._zygote,
        )

    def _play(self, story: Story, point: Point) -> Outcome:
        operator, play = story.operator, point.play
        self._proxy.trap = Trap()
        operator.start()
        with story.traffic(REQUESTS_PER_SECOND) as traffic:
            play.prepare(story)
            self._wait_until_quiet()
            trap = self._proxy.trap = Trap(point.number, point.when, operator.kill)
            play.act(story)
            self._wait_until_over(story, play, trap)
            events = Counter(event["reason"] for event in story.events())
            state = end_state.of_the_deleted(story) if play.deletes else end_state.of(story, play, traffic)
        return Outcome(point, trap.sprung, trap.counted, state, events, 0.0)

    def _wait_until_over(self, story: Story, play: Play, trap: Trap) -> None:
        started_again = False
        end = time.monotonic() + OVER_SECONDS
        while not (play.over(story) and self._is_quiet()):
            if trap.sprung is not None and not started_again:
                self._start_again(story)
                started_again = True
            if time.monotonic() > end:
                raise AssertionError(f"not over after {OVER_SECONDS:g} s\n{story.report()}")
            time.sleep(0.1)

    def _start_again(self, story: Story) -> None:
        """Returns when the next operator watches: only from then on is it quiet if nothing is written."""
        log = story.operator.log
        before = log.read_text().count(WATCHES)
        story.operator.start()
        story.wait("the next operator", lambda: log.read_text().count(WATCHES) > before, OVER_SECONDS)
        self._proxy.last_write = time.monotonic()

    def _is_quiet(self) -> bool:
        return time.monotonic() - self._proxy.last_write > QUIET_SECONDS

    def _wait_until_quiet(self) -> None:
        while not self._is_quiet():
            time.sleep(0.1)


def points(play: Play, writes: int, every: int) -> Iterator[Point]:
    """Both sides of each write; with `every` above 1 a sample, which an odd number spreads over both sides."""
    for number in range(1, writes + 1):
        for side, when in enumerate(When):
            if (2 * number + side) % every == 0:
                yield Point(play, number, when)


def run_all(stage: Stage, chosen: Sequence[Point], lanes: int, told: Callable[[Outcome], None]) -> list[Outcome]:
    """The outcomes, in no order; each is told as soon as it is there."""
    waiting: queue.SimpleQueue[Point] = queue.SimpleQueue()
    for point in chosen:
        waiting.put(point)
    outcomes: list[Outcome] = []
    lock = threading.Lock()

    def work(number: int) -> None:
        with Lane(stage, number) as lane:
            while True:
                try:
                    point = waiting.get_nowait()
                except queue.Empty:
                    return
                outcome = lane.run(point)
                with lock:
                    outcomes.append(outcome)
                    told(outcome)

    with ThreadPoolExecutor(max_workers=lanes) as pool:
        for future in [pool.submit(work, number) for number in range(lanes)]:
            future.result()
    return outcomes
