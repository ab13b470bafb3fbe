"""Several operators at the same time, one that dies, and an API server that is away: always one writer, or none."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from backstay_cluster.control_plane import ControlPlane

from tests.integration.harness.api import Access
from tests.integration.harness.fake_kubelet import FakeKubelet
from tests.integration.harness.operator_process import OperatorProcess
from tests.integration.harness.story import NAME, Story
from tests.integration.rollouts.operators import (
    LEASE_SECONDS,
    api_server_stands_still,
    leads,
    metric,
    several,
    wait_for_leader,
)

pytestmark = pytest.mark.control_plane

WRITES = "backstay_operator_api_writes_total"
AWAY_SECONDS = 60
"""How long the API server stands still: ten terms of the lease."""


@pytest.fixture
def pair(
    control_plane: ControlPlane, crd: str, operator_kubeconfig: Path, tmp_path: Path
) -> Iterator[list[OperatorProcess]]:
    """Two operators with one lease; the first one leads."""
    operators = several(control_plane, operator_kubeconfig, tmp_path, 2)
    try:
        for operator in operators:
            operator.start()
            operator.wait_until_healthy()
            wait_for_leader(operators)
        yield operators
    finally:
        for operator in operators:
            operator.kill()


@pytest.fixture
def story(access: Access, kubelet: FakeKubelet, pair: list[OperatorProcess], namespace: str) -> Iterator[Story]:
    kubelet.behaviours.clear()
    with access.client() as client:
        one = Story(client, namespace, kubelet, pair[0])
        yield one
        pair[1].kill()
        one.end()


@pytest.mark.case("T14")
def test_of_two_operators_one_writes_and_no_pod_too_many_comes_up(story: Story, pair: list[OperatorProcess]) -> None:
    first, second = pair
    before = set(story.kubelet.runtimes)
    story.create("1.0.0")
    with story.kubelet.traffic(story.namespace, NAME) as traffic:
        story.wait_until_serving("1.0.0", 60)
        story.ask_for("1.1.0")
        status = story.wait_until_serving("1.1.0", 60)
        story.wait_until_at_rest()
    assert (leads(first), leads(second)) == (True, False)
    assert metric(first, WRITES) > 0
    assert metric(second, WRITES) == 0
    assert "backstay_phase{" not in second.metrics()
    versions = [pod.version for name, pod in story.kubelet.runtimes.items() if name not in before]
    assert sorted(versions) == ["1.0.0", "1.0.0", "1.1.0", "1.1.0"]
    assert status["attempts"] == 2
    assert traffic.lost == 0


@pytest.mark.case("T14")
def test_another_one_ends_the_rollout_of_a_leader_that_was_killed(story: Story, pair: list[OperatorProcess]) -> None:
    first, second = pair
    story.behave("1.1.0", slow=0.4)
    story.create("1.0.0")
    with story.kubelet.traffic(story.namespace, NAME) as traffic:
        story.wait_until_serving("1.0.0", 60)
        since = story.get()["metadata"]["resourceVersion"]
        story.ask_for("1.1.0")
        story.kill_operator_in("Soaking", since)
        killed = time.monotonic()
        assert wait_for_leader([second]) is second
        assert time.monotonic() - killed < 3 * LEASE_SECONDS
        story.wait("the way back", lambda: bool(story.status().get("rejected")), 60)
        status = story.wait_until_serving("1.0.0", 60)
    assert (status["rejected"][0]["metric"], status["attempts"]) == ("p99LatencyMs", 2)
    assert not leads(first)
    assert traffic.lost == 0


def test_a_leader_that_is_told_to_stop_hands_over_at_once(pair: list[OperatorProcess]) -> None:
    first, second = pair
    assert first.stop() == 0
    stopped = time.monotonic()
    assert wait_for_leader([second]) is second
    assert time.monotonic() - stopped < LEASE_SECONDS


@pytest.mark.case("T39", "T24")
def test_an_api_server_that_stands_still_for_a_minute_stops_the_leader_and_nothing_happens_twice(
    story: Story, pair: list[OperatorProcess], control_plane: ControlPlane
) -> None:
    story.behave("1.1.0", slow=0.4)
    story.create("1.0.0")
    with story.kubelet.traffic(story.namespace, NAME) as traffic:
        story.wait_until_serving("1.0.0", 60)
        story.ask_for("1.1.0")
        story.wait_for(60, phase="Soaking")
        with api_server_stands_still(control_plane):
            time.sleep(LEASE_SECONDS + 1)
            assert [leads(operator) for operator in pair] == [False, False]
            before = [metric(operator, WRITES) for operator in pair]
            time.sleep(AWAY_SECONDS - LEASE_SECONDS - 1)
            assert [metric(operator, WRITES) for operator in pair] == before
        wait_for_leader(pair, 60)
        story.wait("the way back", lambda: bool(story.status().get("rejected")), 60)
        status = story.wait_until_serving("1.0.0", 60)
    assert status["attempts"] == 2
    assert len(status["rejected"]) == 1
    assert traffic.versions == ["1.0.0", "1.1.0", "1.0.0"]
