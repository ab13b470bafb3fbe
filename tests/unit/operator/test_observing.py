"""Which pods a pass asks."""

from datetime import UTC, datetime
from typing import Any

import pytest
from backstay_contract.names import Annotation, Label
from backstay_contract.resource import parse_spec
from backstay_contract.status import ModelDeploymentStatus, Phase
from backstay_operator import kinds
from backstay_operator.desired import services
from backstay_operator.desired.common import Owner, pod_selector
from backstay_operator.observe.observe import Observer
from backstay_operator.settings import Settings

Json = dict[str, Any]
OWNER = Owner("prod", "chat", "uid-1")
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SETTINGS = Settings(runtime_image="runtime:1", control_key=b"0123456789abcdef")


def pod(colour: str, ip: str) -> Json:
    return {
        "metadata": {
            "name": f"chat-{colour}-1",
            "namespace": "prod",
            "labels": OWNER.labels() | {Label.COLOUR: colour},
            "annotations": {Annotation.ATTEMPT: "r-1"},
        },
        "status": {"podIP": ip, "conditions": [{"type": "Ready", "status": "True"}]},
    }


@pytest.fixture
def blue_serves(api: Any, stored: Json) -> Any:
    """Blue serves again after a way back; its pod may still stand by."""
    service = services.active(OWNER)
    service["spec"]["selector"] = pod_selector(OWNER, "blue")
    api.put(kinds.SERVICE, service)
    api.put(kinds.POD, pod("blue", "10.0.0.1"))
    return api


async def asked(api: Any, http: Any, stored: Json) -> list[str]:
    status = ModelDeploymentStatus(phase=Phase.ROLLING_BACK)
    observer = Observer(api, http, SETTINGS)
    await observer.observe(OWNER, parse_spec(stored["spec"]), status, NOON, lambda: None)
    return sorted(url.split("/")[2] for _, url, _ in http.requests)


async def test_after_a_way_back_the_active_pods_are_asked_too_so_that_none_stands_by_for_ever(
    blue_serves: Any, http: Any, stored: Json
) -> None:
    blue_serves.put(kinds.POD, pod("green", "10.0.0.2"))
    assert await asked(blue_serves, http, stored) == ["10.0.0.1:8081", "10.0.0.2:8081"]


async def test_a_pod_that_is_not_ready_is_not_waited_for(blue_serves: Any, http: Any, stored: Json) -> None:
    dead = pod("green", "10.0.0.2")
    dead["status"]["conditions"][0]["status"] = "False"
    blue_serves.put(kinds.POD, dead)
    assert await asked(blue_serves, http, stored) == ["10.0.0.1:8081"]


async def test_at_rest_no_pod_is_asked_also_while_one_of_a_lost_node_never_ends(
    blue_serves: Any, http: Any, stored: Json
) -> None:
    ending = pod("green", "10.0.0.2")
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T11:00:00Z"
    blue_serves.put(kinds.POD, ending)
    assert await asked(blue_serves, http, stored) == []
