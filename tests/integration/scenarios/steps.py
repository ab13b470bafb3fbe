"""What several scenarios begin with."""

from dataclasses import replace
from typing import Any

from tests.integration.harness.fake_runtime import FakeRuntime
from tests.integration.harness.story import Story

LONG_SOAK = {"minSeconds": 40, "maxSeconds": 80, "intervalSeconds": 0.3}
"""It does not end while a scenario lasts."""
ALERTS_TOKEN = "a-token-of-alertmanager"
SHORT_SOAK = {"minSeconds": 1, "maxSeconds": 60, "intervalSeconds": 0.3}


BEFORE_THE_FLIP: dict[str, dict[str, Any]] = {
    "Starting": {"start_seconds": 3600},
    "Checking": {"smoke_seconds": 4},
    "Held": {"dark": True},
}
"""How a candidate behaves that stays in the phase for a while."""


def other(colour: str) -> str:
    return "green" if colour == "blue" else "blue"


def serving(story: Story, replicas: int = 1, **rollout: Any) -> str:
    """1.0.0 serves and was verified; its colour."""
    story.create("1.0.0", replicas, **{"soak": SHORT_SOAK, **rollout})
    story.wait_until_serving("1.0.0")
    return story.selector()


def soaking(story: Story, version: str = "1.1.0", **soak: Any) -> str:
    """The version is active and watched, for longer than the scenario lasts; its colour."""
    story.edit(rollout={"soak": {**LONG_SOAK, **soak}})
    story.ask_for(version)
    story.wait_for(phase="Soaking")
    return story.selector()


def behave_now(pods: list[FakeRuntime], **how: Any) -> None:
    """Pods that run already behave otherwise from now on."""
    for pod in pods:
        pod.behaviour = replace(pod.behaviour, **how)
