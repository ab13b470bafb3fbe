"""What is played while the operator is killed: each play once as a whole for every write of it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from tests.integration.harness.fake_kubelet import FakeKubelet
from tests.integration.harness.fake_runtime import Behaviour
from tests.integration.harness.story import NAME, Story

FIRST, BETTER, WORSE = "1.0.0", "1.1.0", "2.0.0"
REQUESTS_PER_SECOND = 1500.0
"""Enough for a verdict within two looks."""
PREPARED_SECONDS = 120.0
"""For a machine that is busy with other things."""


@dataclass(frozen=True)
class Play:
    """`prepare` brings the resource to where the play begins; `act` begins it; `over` says when it has ended."""

    name: str
    prepare: Callable[[Story], None]
    act: Callable[[Story], None]
    over: Callable[[Story], bool]
    deletes: bool = False
    """Whether nothing is left at the end."""
    interrupts: bool = False
    """Whether clients lose requests by design."""


def create(story: Story, **rollout: Any) -> None:
    soak = {"minSeconds": 0, "maxSeconds": 60, "intervalSeconds": 0.2}
    story.create(FIRST, replicas=1, scaleDownDelaySeconds=0, soak=soak, **rollout)


def nothing(story: Story) -> None:
    """There is nothing to prepare."""


def first_serves(story: Story) -> None:
    create(story)
    story.wait("the beginning", lambda: rests(story, FIRST), PREPARED_SECONDS)


def better_serves(story: Story) -> None:
    """The first version is in the history only, and what serves is watched."""
    create(story)
    story.edit(rollback={"watch": {"intervalSeconds": 0.2, "roundSeconds": 10}})
    story.wait("the first version", lambda: rests(story, FIRST), PREPARED_SECONDS)
    story.ask_for(BETTER)
    story.wait("the beginning", lambda: rests(story, BETTER), PREPARED_SECONDS)


def turn_bad(story: Story) -> None:
    """What serves is slow from now on."""
    for pod in story.pods(story.selector()):
        pod.behaviour = replace(pod.behaviour, slow=0.5)


def first_serves_alone(story: Story) -> None:
    create(story, strategy="Recreate")
    story.wait("the beginning", lambda: rests(story, FIRST), PREPARED_SECONDS)


def rests(story: Story, version: str) -> bool:
    """The version serves, no attempt is open, and the other colour has no pods."""
    status = story.status()
    attempt, active = status.get("attempt") or {}, status.get("active") or {}
    if (status.get("phase"), active.get("version")) != ("Serving", version) or "endedAt" not in attempt:
        return False
    other = "green" if active["colour"] == "blue" else "blue"
    return active.get("ready") == active.get("replicas") and not story.pods(other) and story.replicas(other) == 0


def went_back(story: Story) -> bool:
    """The last pass says why what is asked for does not serve."""
    return rests(story, FIRST) and story.status()["reason"] == "Breach"


def is_gone(story: Story) -> bool:
    return story.client.get(story.path).status_code == 404 and not story.children()


PLAYS = (
    Play("first deployment", nothing, create, lambda story: rests(story, FIRST)),
    Play("rollout", first_serves, lambda story: story.ask_for(BETTER), lambda story: rests(story, BETTER)),
    Play("way back", first_serves, lambda story: story.ask_for(WORSE), went_back),
    Play("slow way back", better_serves, turn_bad, went_back),
    Play(
        "recreate",
        first_serves_alone,
        lambda story: story.ask_for(BETTER),
        lambda story: rests(story, BETTER),
        interrupts=True,
    ),
    Play("deletion", first_serves, lambda story: story.delete(), is_gone, deletes=True),
)


def behave(kubelet: FakeKubelet) -> None:
    """How the versions behave, for all plays at once; whatever tests before it wanted."""
    kubelet.behaviours.clear()
    kubelet.room.clear()
    kubelet.behaviours[WORSE] = Behaviour(slow=0.4)


__all__ = ["NAME", "PLAYS", "REQUESTS_PER_SECOND", "Play", "behave"]
