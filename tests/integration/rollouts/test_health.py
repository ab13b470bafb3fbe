"""The health that Argo CD shows, on real statuses. `BACKSTAY_WRITE_GOLDENS=1` records them for the unit tests."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.argo_cd import lua
from tests.integration.harness.story import Story

pytestmark = [pytest.mark.control_plane, pytest.mark.case("T20")]

RECORDED = Path(lua.__file__).parent / "recorded"
Is = Callable[[str, str], None]


@pytest.fixture
def is_(equipped: Story) -> Is:
    """Waits until the health is as said, and records the object under a name."""

    def check(name: str, wanted: str) -> None:
        seen: list[dict[str, Any]] = []

        def there() -> bool:
            seen.append(equipped.get())
            observed = seen[-1].get("status", {}).get("observedGeneration")
            return lua.health(seen[-1]).status == wanted and observed == seen[-1]["metadata"]["generation"]

        equipped.wait(f"{name}: {wanted}", there)
        body = seen[-1]
        assert lua.health(body).message
        if os.environ.get("BACKSTAY_WRITE_GOLDENS"):
            del body["metadata"]["managedFields"]
            text = json.dumps({"health": wanted, "object": body}, indent=1, sort_keys=True)
            RECORDED.mkdir(exist_ok=True)
            (RECORDED / f"{name}.json").write_text(text + "\n")

    return check


def test_a_version_comes_into_service_and_a_bad_one_goes_back(equipped: Story, is_: Is) -> None:
    equipped.behave("1.0.0", start_seconds=2)
    equipped.behave("1.1.0", slow=0.4, smoke_seconds=2)
    equipped.create("1.0.0", replicas=1)
    with equipped.traffic():
        is_("first-version-starts", "Progressing")
        equipped.wait_until_serving("1.0.0")
        is_("serves", "Healthy")
        equipped.ask_for("1.1.0")
        is_("candidate-comes-up", "Progressing")
        equipped.wait("the way back", lambda: bool(equipped.status().get("rejected")))
        equipped.wait_until_serving("1.0.0")
        is_("rejected", "Degraded")
        equipped.edit(model=equipped.get()["spec"]["model"] | {"version": "1.2.0", "sha256": "ab" * 32})
        is_("the-fix-comes-up", "Progressing")


def test_a_person_is_waited_for(equipped: Story, is_: Is) -> None:
    equipped.create("1.0.0", replicas=1)
    with equipped.traffic():
        equipped.wait_until_serving("1.0.0")
        equipped.edit(rollout={"promotion": "Manual"})
        equipped.ask_for("1.1.0")
        equipped.wait_for(phase="AwaitingPromotion")
        is_("awaits-promotion", "Suspended")
        equipped.edit(rollout={"promote": equipped.status()["attempt"]["id"], "soak": {"minSeconds": 5}})
        equipped.wait_for(phase="Soaking")
        is_("soaks", "Progressing")
        equipped.wait_until_serving("1.1.0")
        equipped.edit(rollout={"paused": True})
        equipped.ask_for("1.2.0")
        equipped.wait_for(reason="Paused")
        is_("paused", "Suspended")


def test_a_first_version_that_cannot_serve_has_failed(equipped: Story, is_: Is) -> None:
    equipped.behave("1.0.0", unready=True)
    equipped.create("1.0.0", replicas=1, progressDeadlineSeconds=2)
    equipped.wait_for(phase="Failed")
    is_("first-version-failed", "Degraded")


def test_pods_that_are_not_ready_are_seen(equipped: Story, is_: Is) -> None:
    equipped.create("1.0.0", replicas=1)
    with equipped.traffic():
        equipped.wait_until_serving("1.0.0")
        equipped.edit(replicas=0)
        equipped.wait_for(ready="0/0")
        is_("scaled-to-none", "Healthy")


def test_a_spec_that_is_not_valid_is_seen(equipped: Story, is_: Is) -> None:
    equipped.create("1.0.0", replicas=1)
    with equipped.traffic():
        equipped.wait_until_serving("1.0.0")
        with equipped.without_validation():
            equipped.edit(model={"uri": "nonsense"})
            equipped.wait_for(reason="SpecInvalid")
            is_("spec-invalid", "Degraded")
