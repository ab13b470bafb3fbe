"""Argo CD's health check, in a real Lua, on statuses that a real API server held (tests/integration/rollouts)."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from backstay_contract.status import Phase
from hypothesis import given
from hypothesis import strategies as st

from tests.argo_cd import lua

RECORDED = {path.stem: json.loads(path.read_text()) for path in (Path(lua.__file__).parent / "recorded").glob("*.json")}
STATES = {"Healthy", "Progressing", "Degraded", "Suspended", "Missing"}
Json = dict[str, Any]

pytestmark = pytest.mark.case("T20")


def recorded(name: str, **status: Any) -> Json:
    body: Json = copy.deepcopy(RECORDED[name]["object"])
    body["status"] |= status
    return body


@pytest.mark.parametrize("name", sorted(RECORDED))
def test_a_recorded_status_has_its_health(name: str) -> None:
    assert lua.health(RECORDED[name]["object"]).status == RECORDED[name]["health"]


def test_each_health_but_missing_was_recorded() -> None:
    assert {one["health"] for one in RECORDED.values()} == STATES - {"Missing"}
    assert len(RECORDED) >= 5


@pytest.mark.parametrize("name", sorted(RECORDED))
def test_a_status_of_an_older_generation_says_nothing_of_the_present_one(name: str) -> None:
    body = recorded(name)
    body["metadata"]["generation"] += 1
    assert lua.health(body).status == "Progressing"


def test_without_a_status_the_operator_is_waited_for() -> None:
    body = recorded("serves")
    del body["status"]
    assert lua.health(body).status == "Progressing"
    body["status"] = {}
    assert lua.health(body).status == "Progressing"


def test_a_service_that_selects_nothing_at_rest_is_missing() -> None:
    body = recorded("serves")
    del body["status"]["active"]
    assert lua.health(body).status == "Missing"


def test_no_ready_pod_is_degraded_unless_none_is_wanted() -> None:
    body = recorded("serves", readyReplicas=0)
    assert lua.health(body).status == "Degraded"
    body["spec"]["replicas"] = 0
    assert lua.health(body).status == "Healthy"


def test_the_way_back_and_a_degraded_mode_are_degraded() -> None:
    assert lua.health(recorded("serves", phase="RollingBack")).status == "Degraded"
    conditions = [{"type": "Degraded", "status": "True"}]
    assert lua.health(recorded("serves", conditions=conditions)).status == "Degraded"


def test_a_digest_is_the_same_with_and_without_its_prefix() -> None:
    body = recorded("serves")
    body["spec"]["model"]["sha256"] = body["spec"]["model"]["sha256"].removeprefix("sha256:")
    assert lua.health(body).status == "Healthy"


def test_another_digest_than_the_one_that_serves_is_healthy_only_where_it_is_pinned() -> None:
    body = recorded("serves")
    body["spec"]["model"]["sha256"] = "cd" * 32
    assert lua.health(body).status == "Progressing"
    body["status"]["conditions"].append({"type": "Pinned", "status": "True"})
    assert lua.health(body).status == "Healthy"


@given(st.sampled_from(sorted(RECORDED)), st.sampled_from(list(Phase)), st.data())
def test_whatever_the_status_holds_there_is_a_health_and_a_message(
    name: str, phase: Phase, data: st.DataObject
) -> None:
    body = recorded(name, phase=str(phase))
    for field in data.draw(st.sets(st.sampled_from(sorted(body["status"])))):
        del body["status"][field]
    found = lua.health(body)
    assert found.status in STATES
    assert found.message


def test_the_manifest_holds_the_script() -> None:
    manifest = yaml.safe_load((lua.SCRIPT.parent / "argocd-cm.yaml").read_text())
    assert manifest["data"]["resource.customizations.health.backstay.dev_ModelDeployment"] == lua.SCRIPT.read_text()
