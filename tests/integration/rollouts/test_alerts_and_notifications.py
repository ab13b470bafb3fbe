"""Alertmanager tells the operator, and the operator tells others, on a real API server."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from backstay_cluster.control_plane import ControlPlane

from tests.integration.harness.api import Access
from tests.integration.harness.fake_kubelet import FakeKubelet
from tests.integration.harness.operator_process import OperatorProcess
from tests.integration.harness.story import NAME, Story, digest
from tests.integration.rollouts.operators import wait_for_leader
from tests.integration.rollouts.sink import Sink

pytestmark = pytest.mark.control_plane

TOKEN = "a-token-of-16-or-more"


@pytest.fixture
def sink(control_plane: ControlPlane) -> Iterator[Sink]:
    one = Sink(control_plane)
    yield one
    one.stop()


@pytest.fixture
def told(
    control_plane: ControlPlane,
    crd: str,
    access: Access,
    operator_kubeconfig: Path,
    kubelet: FakeKubelet,
    namespace: str,
    sink: Sink,
    tmp_path: Path,
) -> Iterator[Story]:
    """A story whose operator takes alerts and notifies the sink."""
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "url").write_text(sink.url)
    one = {"name": "oncall", "format": "CloudEvents", "urlFile": str(tmp_path / "url")}
    (tmp_path / "sinks.json").write_text(json.dumps({"sinks": [one]}))
    env = {
        "BACKSTAY_ALERTS_TOKEN_FILE": str(tmp_path / "token"),
        "BACKSTAY_NOTIFICATIONS_FILE": str(tmp_path / "sinks.json"),
    }
    operator = OperatorProcess(control_plane, operator_kubeconfig, tmp_path, env)
    operator.start()
    operator.wait_until_healthy()
    wait_for_leader([operator])
    kubelet.behaviours.clear()
    with access.client() as client:
        story = Story(client, namespace, kubelet, operator)
        yield story
        story.end()


def alert(story: Story, version: str, status: str = "firing") -> dict[str, Any]:
    return {
        "status": status,
        "fingerprint": "f00d",
        "labels": {
            "alertname": "ModelSlow",
            "namespace": story.namespace,
            "modeldeployment": NAME,
            "digest": digest(version),
        },
        "annotations": {"summary": "slow for five minutes"},
        "startsAt": "2100-01-01T00:00:00Z",
    }


def post(story: Story, *alerts: dict[str, Any], token: str = TOKEN) -> httpx2.Response:
    """As Alertmanager sends it."""
    url = f"http://127.0.0.1:{story.operator.health_port}/alerts"
    headers, body = {"Authorization": f"Bearer {token}"}, {"version": "4", "alerts": list(alerts)}
    answer: httpx2.Response = story.operator.plane.inside(
        lambda: httpx2.post(url, json=body, headers=headers, timeout=30)
    )
    return answer


def test_a_firing_alert_sends_the_version_that_it_names_back(told: Story, sink: Sink) -> None:
    told.create("1.0.0", soak={"minSeconds": 120, "maxSeconds": 300})
    with told.kubelet.traffic(told.namespace, NAME) as traffic:
        told.wait_for(60, phase="Soaking")
        told.edit(rollout={"soak": {"minSeconds": 1, "maxSeconds": 60}})
        told.wait_until_serving("1.0.0", 60)
        told.edit(rollout={"soak": {"minSeconds": 120, "maxSeconds": 300}})
        told.ask_for("1.1.0")
        told.wait_for(60, phase="Soaking")
        assert post(told, alert(told, "1.1.0"), token="another-token-of-16").status_code == 401
        assert post(told, alert(told, "1.0.0")).json()["ignored"][0]["reason"].endswith("is not what serves")
        assert told.status()["phase"] == "Soaking"
        answer = post(told, alert(told, "1.1.0"))
        assert (answer.status_code, answer.json()) == (200, {"accepted": 1, "ignored": []})
        rejected = told.wait_until_rejected("1.1.0", 5)
        told.wait_until_serving("1.0.0", 60)
    assert rejected["reason"] == "Alert"
    assert traffic.lost == 0
    assert post(told, alert(told, "1.1.0", "resolved")).status_code == 200


@pytest.mark.case("R82", "R83")
def test_each_transition_is_notified_once_although_the_operator_is_killed(told: Story, sink: Sink) -> None:
    told.behave("1.1.0", slow=0.4)
    told.create("1.0.0")
    with told.kubelet.traffic(told.namespace, NAME):
        told.wait_until_serving("1.0.0", 60)
        told.wait("the first notifications", lambda: "Verified" in sink.reasons())
        sink.busy = True
        told.ask_for("1.1.0")
        told.wait_until_rejected("1.1.0", 60)
        told.operator.kill()
        sink.busy = False
        told.operator.start()
        told.operator.wait_until_healthy()
        told.wait_until_serving("1.0.0", 60)
        told.wait("the notification of the breach", lambda: "Breach" in sink.reasons(), 60)
        told.pause(3)
    ids = [one["id"] for one in sink.received if one["data"]["namespace"] == told.namespace]
    assert len(ids) == len(set(ids))
    assert set(ids) == {event["metadata"]["name"].rpartition(".")[2] for event in told.events()}
    breach = next(one for one in sink.received if one["data"]["reason"] == "Breach")
    assert (breach["specversion"], breach["type"]) == ("1.0", "dev.backstay.modeldeployment.breach")
    data = breach["data"]
    assert (data["namespace"], data["name"], data["version"]) == (told.namespace, NAME, "1.1.0")
    assert (data["metric"], data["limit"]) == ("p99LatencyMs", 200)
    assert data["observed"] > 0.2
    assert data["n"] >= data["k"] > 0
    assert data["eValue"] > 3
    assert "hook-with-a-secret" not in told.operator.log.read_text()
    assert not any("hook-with-a-secret" in json.dumps(event) for event in told.events())
