"""Deletion, uninstall, and an operator that dies."""

import subprocess
import sys
import time

import pytest

from tests.integration.harness.story import NAME, Story

pytestmark = pytest.mark.control_plane

PHASES = ("Starting", "Checking", "Soaking", "RollingBack")


@pytest.mark.case("R86", "T16")
def test_delete_leaves_nothing_and_the_service_outlives_the_pods(story: Story) -> None:
    story.create("1.0.0")
    with story.kubelet.traffic(story.namespace, NAME) as traffic:
        story.wait_until_serving("1.0.0")
        pod = story.kubelet.pods(NAME, story.selector())[0]
        pod.holds_until = time.time() + 4
        story.delete()
        story.pause(2)
        assert story.selector() == "blue"
        assert story.get()["status"]["phase"] == "Terminating"
    story.wait("the end", lambda: story.client.get(story.path).status_code == 404, 30)
    story.wait("nothing left", lambda: not story.children(), 30)
    assert traffic.versions == ["1.0.0"]


@pytest.mark.case("K5")
def test_a_pod_that_does_not_end_holds_the_deletion_for_a_while_only(story: Story) -> None:
    story.create("1.0.0", replicas=1)
    with story.kubelet.traffic(story.namespace, NAME):
        story.wait_until_serving("1.0.0")
    (pod,) = story.kubelet.pods(NAME, story.selector())
    pod.holds_until = time.time() + 3600
    story.delete()
    story.wait("the end", lambda: story.client.get(story.path).status_code == 404, 60)
    assert story.child("services", NAME) is None
    pod.holds_until = 1
    story.wait("nothing left", lambda: not story.children(), 30)


def test_release_lets_resources_go_without_touching_what_serves(story: Story) -> None:
    story.create("1.0.0", replicas=1)
    with story.kubelet.traffic(story.namespace, NAME):
        story.wait_until_serving("1.0.0")
    story.operator.stop()
    command = [sys.executable, "-m", "backstay_operator", "release", "--namespace", story.namespace]
    env = {"KUBECONFIG": str(story.operator.kubeconfig), "PATH": "/usr/bin:/bin"}
    said = subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout
    assert said == "1 resources let go\n"
    assert story.get()["metadata"].get("finalizers", []) == []
    assert story.replicas("blue") == 1
    story.delete()
    story.wait("nothing left", lambda: not story.children(), 30)


def test_the_operator_stops_when_it_is_told_to(story: Story) -> None:
    assert story.operator.stop() == 0


@pytest.mark.parametrize("phase", PHASES)
def test_an_operator_that_is_killed_in_a_phase_ends_the_same(story: Story, phase: str) -> None:
    story.behave("1.1.0", slow=0.4, start_seconds=1, smoke_seconds=1)
    story.create("1.0.0")
    with story.kubelet.traffic(story.namespace, NAME) as traffic:
        story.wait_until_serving("1.0.0")
        before = story.get()["metadata"]["resourceVersion"]
        story.ask_for("1.1.0")
        story.kill_operator_in(phase, since=before)
        story.pause(1)
        story.operator.start()
        story.operator.wait_until_healthy()
        story.wait("the way back", lambda: bool(story.status().get("rejected")))
        status = story.wait_until_serving("1.0.0")
        story.wait_until_at_rest()
    assert [entry["metric"] for entry in status["rejected"]] == ["p99LatencyMs"]
    assert traffic.versions == ["1.0.0", "1.1.0", "1.0.0"]
    assert traffic.lost == 0
    assert None not in traffic.selectors


def writes(metrics: str) -> list[str]:
    """Without the Lease, which is renewed whether there is anything to do or not."""
    lines = [line for line in metrics.splitlines() if line.startswith("backstay_operator_api_writes_total{")]
    return [line for line in lines if 'kind="Lease"' not in line]


def test_at_rest_the_operator_writes_nothing_and_asks_no_pod(story: Story) -> None:
    story.create("1.0.0", replicas=1)
    with story.kubelet.traffic(story.namespace, NAME):
        story.wait_until_serving("1.0.0")
        story.wait_until_at_rest()
        story.pause(3)
        story.operator.kill()
        story.operator.start(BACKSTAY_RESYNC_SECONDS="1")
        story.operator.wait_until_healthy()
        story.pause(2)  # the first pass after a start may tell an end again that a killed operator had not told
        (pod,) = story.kubelet.pods(NAME, story.selector())
        asked = pod.state_requests
        version = story.get()["metadata"]["resourceVersion"]
        written = writes(story.operator.metrics())
        story.pause(4)
    text = story.operator.metrics()
    assert story.get()["metadata"]["resourceVersion"] == version
    assert writes(text) == written
    # An operator that starts tells again what is remembered as told: those that are there already are refused.
    assert all('kind="Event",verb="create"' in line for line in written)
    assert pod.state_requests == asked


@pytest.mark.case("K4")
def test_nothing_of_the_watching_library_is_written_to_the_objects(story: Story) -> None:
    story.create("1.0.0", replicas=1)
    with story.kubelet.traffic(story.namespace, NAME):
        story.wait_until_serving("1.0.0")
    metadata = story.get()["metadata"]
    assert metadata["finalizers"] == ["backstay.dev/teardown"]
    assert "kopf" not in str(metadata)
