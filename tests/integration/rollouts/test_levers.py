"""People's levers on a real API server: pause and rollbackTo, as GitOps and the command line set them."""

import pytest

from tests.integration.harness.story import NAME, Story

pytestmark = pytest.mark.control_plane

LONG = {"minSeconds": 300, "maxSeconds": 600}


def test_a_paused_rollout_goes_nowhere_and_on_when_it_is_resumed(story: Story) -> None:
    story.create("1.0.0", replicas=1)
    with story.kubelet.traffic(story.namespace, NAME) as traffic:
        story.wait_until_serving("1.0.0")
        story.edit(rollout={"paused": True})
        story.ask_for("1.1.0")
        status = story.wait_for(phase="Serving", reason="Paused")
        story.pause(3)
        assert story.status()["attempts"] == status["attempts"] == 1
        story.edit(rollout={"paused": False})
        status = story.wait_until_serving("1.1.0")
    assert traffic.versions == ["1.0.0", "1.1.0"]
    assert traffic.lost == 0
    assert "Paused" not in {condition["type"] for condition in status["conditions"]}


def test_an_older_revision_is_brought_back_and_the_spec_again_when_the_pin_is_emptied(story: Story) -> None:
    story.create("1.0.0", replicas=1)
    with story.kubelet.traffic(story.namespace, NAME) as traffic:
        story.wait_until_serving("1.0.0")
        for version in ("1.1.0", "1.2.0"):
            story.ask_for(version)
            status = story.wait_until_serving(version)
        oldest = next(entry["revision"] for entry in status["history"] if entry["version"] == "1.0.0")
        story.edit(rollout={"rollbackTo": "0123456789ab"})
        assert oldest in story.wait_for(reason="RevisionUnknown")["message"]
        story.edit(rollout={"rollbackTo": oldest})
        story.wait_until_serving("1.0.0")
        assert story.wait_for(phase="Serving", reason="Pinned")["active"]["revision"] == oldest
        story.edit(rollout={"rollbackTo": ""})
        story.wait_until_serving("1.2.0")
        story.wait_until_at_rest()
    assert traffic.versions == ["1.0.0", "1.1.0", "1.2.0", "1.0.0", "1.2.0"]
    assert traffic.lost == 0
    assert not story.status().get("rejected")


@pytest.mark.case("R38")
def test_the_warm_previous_revision_is_flipped_to_in_the_soak_although_the_rollout_is_paused(story: Story) -> None:
    story.create("1.0.0", replicas=1)
    with story.kubelet.traffic(story.namespace, NAME) as traffic:
        first = story.wait_until_serving("1.0.0")["active"]["revision"]
        story.edit(rollout={"soak": LONG})
        story.ask_for("1.1.0")
        story.wait_for(phase="Soaking")
        attempts = story.status()["attempts"]
        story.edit(rollout={"paused": True, "rollbackTo": first})
        status = story.wait_until_serving("1.0.0")
    assert (status["attempts"], status["attempt"]["outcome"]) == (attempts, "Pinned")
    assert traffic.versions == ["1.0.0", "1.1.0", "1.0.0"]
    assert not status.get("rejected")
