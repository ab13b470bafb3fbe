"""Which pods a pass asks."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from backstay_contract.names import Annotation, Label
from backstay_contract.resource import parse_spec
from backstay_contract.status import (
    Attempt,
    Colour,
    ModelDeploymentStatus,
    Phase,
)
from backstay_operator import kinds
from backstay_operator.desired import services
from backstay_operator.desired.common import Owner, pod_selector
from backstay_operator.desired.deployment import deployment
from backstay_operator.observe.observe import Observer
from backstay_operator.rollout import revision
from backstay_operator.settings import Settings

from .conftest import roomy_node

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
        "spec": {"containers": []},
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


# --- nodes -------------------------------------------------------------------------------------------------------


async def seen_nodes(api: Any, http: Any, stored: Json, status: ModelDeploymentStatus, **settings: Any) -> Any:
    observer = Observer(api, http, replace(SETTINGS, **settings))
    seen = await observer.observe(OWNER, parse_spec(stored["spec"]), status, NOON, lambda: None)
    return seen.observation.nodes


async def test_nodes_are_read_where_a_candidate_is_wanted_and_not_made_yet(api: Any, http: Any, stored: Json) -> None:
    api.put(kinds.NODE, roomy_node())
    nodes = await seen_nodes(api, http, stored, ModelDeploymentStatus())
    assert [one.name for one in nodes.all] == ["n1"]
    assert await seen_nodes(api, http, stored, ModelDeploymentStatus(), capacity_check=False) is None


@pytest.mark.parametrize("made", [True, False])
async def test_once_the_candidate_is_made_the_nodes_are_left_alone(
    api: Any, http: Any, stored: Json, made: bool
) -> None:
    api.put(kinds.NODE, roomy_node())
    spec = parse_spec(stored["spec"])
    build = revision.of_spec(spec, SETTINGS.runtime_image, ())
    attempt = Attempt(
        id="r-1",
        revision=build.revision,
        digest=build.digest,
        version=build.version,
        colour=Colour.BLUE,
        image=build.image,
        started_at=NOON,
    )
    if made:
        api.put(
            kinds.DEPLOYMENT,
            deployment(OWNER, spec, Colour.BLUE, build, attempt="r-1", replicas=1, token_hash=""),
        )
    status = ModelDeploymentStatus(phase=Phase.STARTING, attempt=attempt, attempts=1)
    assert (await seen_nodes(api, http, stored, status) is None) is made


async def test_at_rest_the_nodes_are_left_alone(api: Any, http: Any, stored: Json) -> None:
    stored["spec"]["rollout"] = {"paused": True}
    assert await seen_nodes(api, http, stored, ModelDeploymentStatus()) is None
