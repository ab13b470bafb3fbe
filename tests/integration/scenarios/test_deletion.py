"""The end of a resource."""

import time

import pytest

from tests.integration.harness.story import Story
from tests.integration.scenarios.steps import serving

pytestmark = [pytest.mark.control_plane, pytest.mark.case("S20")]


@pytest.mark.case("R86", "T34")
def test_deletion_in_a_rollout_creates_nothing_and_the_service_outlives_the_pods(story: Story) -> None:
    story.behave("1.1.0", start_seconds=3600)
    with story.traffic():
        active = serving(story)
        story.ask_for("1.1.0")
        story.wait_for(phase="Starting")
        (pod,) = story.pods(active)
        pod.holds_until = time.time() + 4
        before = set(story.children())
        story.delete()
        story.pause(2)
        assert story.selector() == active
        new = {one for one in set(story.children()) - before if not one.startswith("events/")}
        assert not new
    story.wait("the end", lambda: story.client.get(story.path).status_code == 404, 60)
    story.wait("nothing left", lambda: not story.children(), 30)
