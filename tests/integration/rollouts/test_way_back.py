"""The watch after the soak and the slow way back, on a real API server: at rest, and with a killed operator."""

from dataclasses import replace

from tests.integration.harness.fake_runtime import FakeRuntime
from tests.integration.harness.story import Story

WATCH = {"intervalSeconds": 0.4, "roundSeconds": 60}


def turn_bad(pods: list[FakeRuntime]) -> None:
    """The pods as they are begin to be slow."""
    for pod in pods:
        pod.behaviour = replace(pod.behaviour, slow=0.5)


def second_verified(story: Story) -> None:
    """1.1.0 serves after 1.0.0, both verified."""
    story.create("1.0.0", replicas=1)
    story.edit(rollback={"watch": WATCH})
    story.wait_until_serving("1.0.0")
    story.ask_for("1.1.0")
    story.wait_until_serving("1.1.0")
    story.wait_until_at_rest()


def test_the_watch_writes_nothing_at_rest(story: Story) -> None:
    with story.traffic():
        second_verified(story)
        story.pause(2)
        before = story.get()["metadata"]["resourceVersion"]
        reads = [len(pod.read_at) for pod in story.pods("green")]
        story.pause(4)
        assert story.get()["metadata"]["resourceVersion"] == before
        assert all(len(pod.read_at) > n for pod, n in zip(story.pods("green"), reads, strict=True))


def test_an_operator_that_is_killed_on_the_slow_way_back_goes_on(story: Story) -> None:
    with story.traffic() as traffic:
        second_verified(story)
        story.behave("1.0.0", start_seconds=3)
        turn_bad(story.pods("green"))
        story.wait_until_rejected("1.1.0")
        story.operator.kill()
        story.operator.start()
        story.wait_until_serving("1.0.0")
    assert traffic.lost == 0
    assert [one["version"] for one in story.status()["rejected"]] == ["1.1.0"]
