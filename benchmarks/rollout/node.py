"""Flips on a real node with the real runtime, under load: what clients lose, and how soon kept connections move.

A tiny model serves. Fifty times in a row the Service is flipped: a second version comes up and is flipped to, and then
the spec is put back, which flips back. Meanwhile requests arrive at fixed times, half of them on connections of their
own, half on kept ones. Afterwards two flips have token streams of more than two minutes on the losing side.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from backstay_cluster.progress import Progress

from benchmarks.rollout.clients import Streams, load
from tests.e2e import bench as e2e
from tests.e2e.bench import WHERE, Bench
from tests.e2e.story import clean, figures, history, install, place, publish
from tests.e2e.story.answers import Answer
from tests.e2e.story.history import Flip
from tests.e2e.story.publish import Pushed
from tests.e2e.story.watch import Watch
from tests.unit.runtime import tiny

RATE = 50.0
"""Requests a second, of both kinds together."""
STREAM_TOKENS = 30_000
"""Two to four minutes of three streams on one thread: attention over so many tokens takes most of it."""
STAY_SECONDS = 3.0
"""Between a flip and the next change of the spec: time for kept connections to move."""
CONTEXT = 32_768
SERVING = {**e2e.SERVING, "maxModelLen": CONTEXT, "maxNumSeqs": 16}
NEVER = {"soak": {"minSeconds": 3600, "maxSeconds": 3600, "intervalSeconds": 2}}
"""A soak that does not end, so that the previous colour is kept and putting the spec back flips back."""


@dataclass(frozen=True)
class Traffic:
    """All that clients met, and when the Service was flipped."""

    answers: Sequence[Answer]
    flips: Sequence[Flip]
    digests: Sequence[str]
    """The winner's digest of each flip."""
    until: float


@contextmanager
def node(name: str) -> Iterator[Bench]:
    """The operator on the project's node, and one resource. A node that ran already is left running."""
    there = place.present_node(name) is not None
    found = place.own_node(name, Progress())
    try:
        clean.resources(found.kube, Progress())
        install.operator(found)
        install.demo_namespace(found)
        install.wait_for_operator(found)
        with TemporaryDirectory() as folder, Bench(found, Path(folder), test="bench-rollout") as made:
            yield made
    finally:
        if not there:
            place.remove_node(name)


def push(bench: Bench, version: str, seed: int) -> Pushed:
    """A tiny model that can write for minutes."""
    config = {**e2e.CONFIG, "max_position_embeddings": CONTEXT}
    folder = tiny.write(bench.folder / version, tiny.tensors(seed=seed), config)
    return publish.push(bench.place, folder, version, run=bench.name, baselines={}, model=e2e.MODEL)


def ask(bench: Bench, pushed: Pushed, rollout: dict[str, Any]) -> float:
    """Ask for the model; when that was."""
    resource = bench.resource(pushed, serving=SERVING)
    resource["spec"]["rollout"] |= rollout
    return bench.apply(resource)


def flip_again_and_again(bench: Bench, pair: tuple[Pushed, Pushed], flips: int) -> Traffic:
    """The load, and so many flips in it."""
    first, second = pair
    done: list[Flip] = []
    digests: list[str] = []
    services = Watch(bench.kube, "services", WHERE, f"--field-selector=metadata.name={bench.name}")
    with services, load(bench, RATE, bench.folder) as load_:
        for number in range(flips):
            wanted = second if number % 2 == 0 else first
            at = ask(bench, wanted, NEVER)
            seen = services.wait(lambda _, at=at: history.flip_after(services.seen, at) is not None, at, 120)  # type: ignore[misc]
            flip = history.flip_after(services.seen, at)
            if seen is None or flip is None:
                raise SystemExit(f"flip {number + 1} did not come within 120 s; status: {bench.status()}")
            done.append(flip)
            digests.append(wanted.digest)
            load_.wait(STAY_SECONDS)
            if wanted is first:
                bench.until(lambda one: one.get("phase") == "Serving" and not one.get("previous"), 60, flip.at)
    return Traffic(load_.answers(), done, digests, load_.ended)


def report(traffic: Traffic) -> tuple[list[str], bool]:
    """The figures as lines, and whether all that is promised held."""
    lost = figures.lost(traffic.answers)
    ends = [flip.at for flip in traffic.flips[1:]] + [traffic.until]
    moved = [
        figures.moved_after(kept, winner, loser, flip.at, end)
        for flip, end, winner, loser in zip(traffic.flips, ends, traffic.digests, _losers(traffic.digests), strict=True)
        if (kept := [answer for answer in traffic.answers if answer.kind == "kept"])
    ]
    known = [seconds for seconds in moved if seconds is not None]
    gap = figures.longest_gap(traffic.answers, traffic.flips[0].at, traffic.until)
    lines = [
        f"{len(traffic.flips)} flips, {len(traffic.answers)} requests at {RATE:g} a second: {len(lost)} failed",
        f"kept connections on the winner within {max(known, default=0):.2f} s of each flip ({len(known)} measured)",
        f"longest time without a good answer: {gap:.3f} s",
        *(f"  failed: {answer.kind} {answer.status} {answer.error}" for answer in lost[:5]),
    ]
    return lines, not lost and len(known) == len(traffic.flips) and max(known) <= 2.0


def _losers(digests: Sequence[str]) -> list[str]:
    """The other one of the two, for each flip."""
    both = list(dict.fromkeys(digests))
    return [both[1 - both.index(digest)] if len(both) > 1 else "" for digest in digests]


def streams_outlive_flips(bench: Bench, pair: tuple[Pushed, Pushed]) -> tuple[list[str], bool]:
    """Two flips whose losers go as soon as they may, each with streams under way on the loser."""
    lines, whole = [], True
    quick = {"scaleDownDelaySeconds": 30, "drainTimeoutSeconds": 900}
    for wanted in (pair[1], pair[0]):
        with Streams(bench, STREAM_TOKENS, count=3) as streams:
            at = ask(bench, wanted, quick | {"soak": {"minSeconds": 1, "maxSeconds": 60, "intervalSeconds": 0.5}})
            bench.until_ended(wanted, at, 180)
        lines.append(f"streams over the flip to {wanted.version}: {streams}")
        whole = whole and streams.cut == 0 and streams.shortest >= 120
        bench.until(lambda one: one.get("phase") == "Serving" and not one.get("previous"), 90, at)
    return lines, whole


def main(flips: int, *, streams: bool) -> bool:
    """Measures and prints; whether all promises held. `flips`: 0 for none."""
    held = whole = True
    with node(os.environ.get("BACKSTAY_TEST_NODE", "e2e")) as bench:
        pair = push(bench, "1", 0), push(bench, "2", 1)
        bench.until_ended(pair[0], ask(bench, pair[0], {}), 120)
        if flips:
            lines, held = report(flip_again_and_again(bench, pair, flips))
            print("\n".join(lines), flush=True)  # noqa: T201
        if streams:
            lines, whole = streams_outlive_flips(bench, pair)
            print("\n".join(lines), flush=True)  # noqa: T201
    return held and whole
