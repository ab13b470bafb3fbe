"""From a real regression to the selector that is changed back, on a real API server.

A new version serves well until it suddenly is slow: half of its requests are beyond the limit from one moment on. Two
spans are measured, `--ways-back` times each:

    sample    from the answer of /metrics that holds the breach to the Service's selector, as a watch sees it
    onset     from the first slow request to that selector: this one depends on the interval between two looks
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from benchmarks.rollout import plane
from tests.integration.harness.story import Story
from tests.integration.scenarios.steps import behave_now

REQUESTS_PER_SECOND = 50.0
SETTLED_SECONDS = 3.0
"""A version serves well for so long before it is slow."""


@dataclass(frozen=True)
class WayBack:
    """One way back, in seconds."""

    sample: float
    onset: float


def measure(ways_back: int, interval_seconds: float) -> Iterator[WayBack]:
    """One way back after another, each of a version of its own."""
    with plane.story() as story:
        soak = {"minSeconds": 0, "maxSeconds": 600, "intervalSeconds": interval_seconds}
        story.create("1.0.0", replicas=2, scaleDownDelaySeconds=0, soak=soak)
        with story.traffic(REQUESTS_PER_SECOND * 20):
            story.wait_until_serving("1.0.0", 60)
        story.edit(rollout={"soak": {"minSeconds": 600}}, rollback={"rules": []})
        for number in range(ways_back):
            yield _one(story, f"2.0.{number}")


def _one(story: Story, version: str) -> WayBack:
    previous = story.selector()
    with story.traffic(REQUESTS_PER_SECOND) as traffic:
        story.ask_for(version)
        story.wait("the flip", lambda: story.selector() not in (previous, "none"), 60)
        active = story.selector()
        story.pause(SETTLED_SECONDS)
        pods = story.pods(active)
        onset = time.time()
        behave_now(pods, slow=0.5)
        story.wait("the way back", lambda: story.selector() == previous, 60)
        flipped = next(at for at, colour in reversed(traffic.flips) if colour == previous)
        looked = max(at for pod in pods for at in pod.read_at if at < flipped)
    story.wait_until_serving("1.0.0", 60)
    story.wait_until_at_rest(60)
    return WayBack(sample=flipped - looked, onset=flipped - onset)


def summary(ways_back: list[WayBack], interval_seconds: float) -> str:
    """The figures as lines."""
    lines = [f"{len(ways_back)} ways back, a look every {interval_seconds:g} s, {REQUESTS_PER_SECOND:g} requests/s"]
    for name, spans in (("sample", [w.sample for w in ways_back]), ("onset", [w.onset for w in ways_back])):
        lines.append(f"  {name:7} to selector: median {median(spans):.3f} s, worst {max(spans):.3f} s")
    return "\n".join(lines)
