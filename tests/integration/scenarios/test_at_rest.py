"""After a rollout: what happens to a pod is no end of an attempt that ended long ago."""

import pytest

from tests.integration.harness.story import Story
from tests.integration.scenarios.steps import other, serving

pytestmark = pytest.mark.control_plane


@pytest.mark.case("R73", "R13")
def test_a_pod_that_fails_after_the_deadline_of_its_attempt_ends_nothing(story: Story) -> None:
    with story.traffic():
        active = serving(story, replicas=2, progressDeadlineSeconds=5, scaleDownDelaySeconds=0)
        ended = story.status()["attempt"]
        story.pause(6)
        pods = story.pods(active)
        for pod in pods:
            pod.ready = False
        story.wait_for(readyReplicas=0)
        assert story.condition("Ready")[0] == "False"
        story.pause(2)
        for pod in pods:
            pod.ready = True
        story.wait_for(readyReplicas=2)
    assert (story.selector(), story.replicas(active), story.replicas(other(active))) == (active, 2, 0)
    assert story.status()["attempt"] == ended
    assert not story.status().get("rejected")
