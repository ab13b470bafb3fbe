"""The spine, with an API server in memory: what it reads, writes once, tells after, and asks to be called again for."""

import asyncio
import copy
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from backstay_contract import names
from backstay_operator import kinds
from backstay_operator.alerts.board import Board
from backstay_operator.alerts.payload import parse
from backstay_operator.client import ApiError
from backstay_operator.queue import Key
from backstay_operator.reconcile import BLOCKED_SECONDS, Reconciler, soonest
from backstay_operator.resource import FINALIZER
from backstay_operator.settings import Settings
from backstay_operator.telemetry import Telemetry

from tests.unit.operator.alerts.build import alert
from tests.unit.operator.alerts.build import body as alert_body

from .conftest import roomy_node

Json = dict[str, Any]
KEY = Key("prod", "chat")
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SETTINGS = Settings(runtime_image="runtime:1", control_key=b"0123456789abcdef")


class Passes:
    """A reconciler whose clock a test moves."""

    def __init__(self, api: Any, http: Any) -> None:
        self.api = api
        self.now = NOON
        self.woken: list[Key] = []
        self.telemetry = Telemetry()
        api.put(kinds.NODE, roomy_node())
        self.reconciler = Reconciler(api, http, SETTINGS, self.telemetry, lambda: self.now, self.woken.append)

    async def once(self) -> float | None:
        return await self.reconciler.reconcile(KEY)

    @property
    def body(self) -> Json:
        body: Json = self.api.objects[kinds.MODEL_DEPLOYMENT, "prod", "chat"]
        return body

    @property
    def status(self) -> Json:
        status: Json = self.body["status"]
        return status


async def test_autoscalers_are_told_the_active_colours_pods_and_nobodys_before_the_first_flip(passes: Passes) -> None:
    await passes.once()
    assert passes.status["selector"] == "backstay.dev/modeldeployment=chat,backstay.dev/colour=none"
    passes.api.objects[kinds.SERVICE, "prod", "chat"]["spec"]["selector"]["backstay.dev/colour"] = "blue"
    await passes.once()
    assert passes.status["selector"] == "backstay.dev/modeldeployment=chat,backstay.dev/colour=blue"


async def test_companions_that_cannot_be_written_hold_up_nothing_and_are_tried_again(passes: Passes) -> None:
    passes.api.objects[kinds.SERVICE, "prod", "chat"] = {}
    del passes.api.objects[kinds.SERVICE, "prod", "chat"]
    refused = ApiError(403, "Forbidden", "no", "fake")
    passes.api.fail = lambda verb, kind, _: refused if (verb, kind) == ("apply", kinds.POD_DISRUPTION_BUDGET) else None
    await passes.once()
    passes.api.objects[kinds.SERVICE, "prod", "chat"]["spec"]["selector"]["backstay.dev/colour"] = "blue"
    again = await passes.once()
    assert passes.status["active"]["colour"] == "blue"
    assert again is not None
    assert again <= BLOCKED_SECONDS
    passes.api.fail = lambda *_: None
    await passes.once()
    assert (kinds.POD_DISRUPTION_BUDGET, "prod", "chat-blue") in passes.api.objects


@pytest.fixture
def passes(api: Any, http: Any, stored: Json) -> Passes:
    return Passes(api, http)


async def test_a_new_resource_is_held_gets_its_children_and_its_status_in_one_pass(passes: Passes) -> None:
    await passes.once()
    kinds_written = [kind for _, kind, _ in passes.api.writes]
    assert kinds_written[0] == "ModelDeployment"
    assert kinds_written.count("ModelDeployment") == 2
    assert kinds_written.index("Event") == len(kinds_written) - 1
    assert passes.body["metadata"]["finalizers"] == [FINALIZER]
    assert passes.status["observedGeneration"] == 1
    assert passes.status["phase"] == "Starting"
    assert (kinds.DEPLOYMENT, "prod", "chat-blue") in passes.api.objects


async def test_a_repeated_pass_comes_to_rest(passes: Passes) -> None:
    for _ in range(4):
        await passes.once()
    passes.api.writes.clear()
    again = await passes.once()
    assert passes.api.writes == []
    assert again is not None


async def test_the_status_is_written_after_the_children_and_events_after_it(passes: Passes) -> None:
    await passes.once()
    order = [(verb, kind) for verb, kind, _ in passes.api.writes]
    status = order.index(("apply-status", "ModelDeployment"))
    assert order.index(("apply", "Deployment")) < status < order.index(("create", "Event"))


async def test_nothing_is_told_when_the_status_could_not_be_written(passes: Passes) -> None:
    passes.api.fail = lambda verb, *_: ApiError(500, "InternalError", "no", "f") if verb == "apply-status" else None
    with pytest.raises(ApiError):
        await passes.once()
    assert not [kind for kind, _, _ in passes.api.objects if kind is kinds.EVENT]


async def test_a_resource_that_is_gone_is_forgotten(passes: Passes) -> None:
    await passes.once()
    assert "backstay_phase{" in exposition(passes.telemetry)
    del passes.api.objects[kinds.MODEL_DEPLOYMENT, "prod", "chat"]
    assert await passes.once() is None
    assert "backstay_phase{" not in exposition(passes.telemetry)


def exposition(telemetry: Telemetry) -> str:
    from prometheus_client import generate_latest

    return generate_latest(telemetry.registry).decode()


async def test_a_spec_that_is_not_valid_is_said_and_no_child_is_touched(passes: Passes) -> None:
    await passes.once()
    passes.api.writes.clear()
    passes.body["spec"]["model"]["uri"] = "ftp://x"
    passes.body["spec"]["surprise"] = 1
    passes.body["metadata"]["generation"] = 2
    await passes.once()
    assert [kind for _, kind, _ in passes.api.writes] == ["ModelDeployment", "Event"]
    assert (passes.status["reason"], passes.status["observedGeneration"]) == ("SpecInvalid", 2)
    assert "spec.model.uri" in passes.status["message"]
    assert "spec.surprise" in passes.status["message"]
    (condition,) = [c for c in passes.status["conditions"] if c["type"] == "SpecValid"]
    assert condition["status"] == "False"
    passes.api.writes.clear()
    passes.now += timedelta(minutes=5)
    await passes.once()
    assert passes.api.writes == []


async def test_a_spec_that_was_never_valid_waits_for_an_edit(passes: Passes) -> None:
    passes.body["spec"]["model"]["uri"] = "ftp://x"
    assert await passes.once() is None
    assert passes.status["reason"] == "SpecInvalid"
    assert not [kind for kind, _, _ in passes.api.objects if kind is kinds.DEPLOYMENT]


@pytest.mark.parametrize("restarts", [True, False])
async def test_under_a_spec_that_is_not_valid_an_attempt_stands_still_and_its_pods_stay(
    passes: Passes, http: Any, restarts: bool
) -> None:
    await passes.once()
    passes.body["spec"]["model"]["uri"] = "ftp://x"
    passes.body["metadata"]["generation"] = 2
    before = copy.deepcopy(passes.api.objects[kinds.DEPLOYMENT, "prod", "chat-blue"])
    if restarts:
        passes.reconciler = Reconciler(
            passes.api, http, SETTINGS, passes.telemetry, lambda: passes.now, passes.woken.append
        )
    passes.now += timedelta(days=2)
    assert await passes.once() is not None
    assert "endedAt" not in passes.status["attempt"]
    assert passes.api.objects[kinds.DEPLOYMENT, "prod", "chat-blue"] == before
    assert {c["type"]: c["status"] for c in passes.status["conditions"]}["SpecValid"] == "False"
    told = [body for (kind, _, _), body in passes.api.objects.items() if kind is kinds.EVENT]
    assert len([body for body in told if body["reason"] == "SpecInvalid"]) == 1


async def test_a_spec_that_is_valid_again_takes_the_condition_away(passes: Passes) -> None:
    good = passes.body["spec"]["model"]["uri"]
    passes.body["spec"]["model"]["uri"] = "ftp://x"
    await passes.once()
    passes.body["spec"]["model"]["uri"] = good
    await passes.once()
    assert "SpecValid" not in {condition["type"] for condition in passes.status["conditions"]}


@pytest.mark.parametrize(("kind", "name"), [(kinds.SERVICE, "chat"), (kinds.DEPLOYMENT, "chat-blue")])
async def test_an_object_of_somebody_else_is_not_touched_and_the_status_names_it(
    passes: Passes, kind: Any, name: str
) -> None:
    theirs = passes.api.put(kind, {"metadata": {"name": name, "namespace": "prod", "labels": {"app": "theirs"}}})
    assert await passes.once() == 30.0
    assert passes.api.objects[kind, "prod", name] == theirs
    assert passes.status["reason"] == "NameTaken"
    assert f"{kind.name} {name} exists in namespace prod" in passes.status["message"]
    passes.api.writes.clear()
    await passes.once()
    assert {written for _, written, _ in passes.api.writes} <= {kinds.SERVICE.name}
    assert passes.api.objects[kind, "prod", name] == theirs
    del passes.api.objects[kind, "prod", name]
    await passes.once()
    assert passes.status["phase"] == "Starting"
    assert "NamesFree" not in {condition["type"] for condition in passes.status["conditions"]}


async def test_once_a_resource_is_being_deleted_nothing_is_created(passes: Passes) -> None:
    passes.body["metadata"] |= {"deletionTimestamp": "2026-01-01T12:00:00Z", "finalizers": [FINALIZER]}
    passes.body["spec"] = {"not": "even valid"}
    assert await passes.once() is None
    assert [verb for verb, _, _ in passes.api.writes if verb in ("create", "apply")] == []
    assert passes.body["metadata"]["finalizers"] == []


@pytest.mark.case("T22")
async def test_an_operator_that_dies_at_any_write_comes_to_the_same_state(api: Any, http: Any, stored: Json) -> None:
    """Every write of the first passes is the last one of some operator; the next one starts with no memory."""
    reference = Passes(api, http)
    for _ in range(4):
        await reference.once()
    wanted, count = essence(api), len(api.writes)
    assert count >= 6
    for deadly in range(count):
        api.objects.clear()
        api.writes.clear()
        api.put(kinds.MODEL_DEPLOYMENT, fresh())
        api.fail = dies_at(api, deadly)
        with pytest.raises(ApiError):
            await passes_until_death(api, http)
        api.fail = lambda *_: None
        survivor = Passes(api, http)
        for _ in range(4):
            await survivor.once()
        assert essence(api) == wanted, f"after a death at write {deadly}"


async def passes_until_death(api: Any, http: Any) -> None:
    for _ in range(6):
        await Passes(api, http).once()


def fresh() -> Json:
    model = {
        "name": "m",
        "version": "1.0.0",
        "uri": "s3://models/m/1",
        "sha256": "sha256:" + "ab" * 32,
        "storage": {"endpoint": "http://minio.minio.svc:9000"},
    }
    metadata = {"name": "chat", "namespace": "prod", "uid": "uid-1", "generation": 1}
    return {"apiVersion": names.API_VERSION, "kind": names.KIND, "metadata": metadata, "spec": {"model": model}}


def dies_at(api: Any, number: int) -> Any:
    def fail(verb: str, *_: Any) -> ApiError | None:
        if verb not in ("get", "list") and len(api.writes) == number:
            return ApiError(0, "Killed", "the process is gone", "fake")
        return None

    return fail


def essence(api: Any) -> dict[str, Any]:
    """What must be the same whatever happened: everything but versions and events that were told to nobody."""
    found = {}
    for (kind, _, name), body in api.objects.items():
        if kind is not kinds.EVENT:
            metadata = {k: v for k, v in body["metadata"].items() if k != "resourceVersion"}
            found[f"{kind.name}/{name}"] = {**body, "metadata": metadata}
    return found


# --- a bad night ---------------------------------------------------------------------------------------------------


async def test_a_status_of_a_later_version_is_read_as_far_as_it_goes(passes: Passes) -> None:
    await passes.once()
    passes.status["phase"] = "Degraded"
    passes.status["inventedLater"] = {"a": 1}
    passes.status["attempt"]["inventedLater"] = True
    attempt = passes.status["attempt"]["id"]
    await passes.once()
    assert (passes.status["phase"], passes.status["attempt"]["id"]) == ("Starting", attempt)
    assert "inventedLater" not in passes.status
    passes.body["spec"]["surprise"] = 1
    passes.status["phase"] = "Degraded"
    passes.status["conditions"][0]["reason"] = "WordOfALaterVersion"
    await passes.once()
    assert passes.status["reason"] == "SpecInvalid"


def refused(status: int) -> Any:
    return lambda _, kind, __: ApiError(status, "No", "not now", "fake") if kind is kinds.EVENT else None


def told(api: Any) -> list[str]:
    return [body["reason"] for (kind, _, _), body in api.objects.items() if kind is kinds.EVENT]


@pytest.mark.parametrize("status", [0, 403, 429, 500])
async def test_an_event_that_cannot_be_told_stops_no_pass_and_is_told_later(passes: Passes, status: int) -> None:
    passes.api.fail = refused(status)
    assert await passes.once() is not None
    assert passes.status["phase"] == "Starting"
    again = await passes.once()
    assert again is not None
    assert again <= 30
    passes.api.fail = lambda *_: None
    await passes.once()
    assert told(passes.api) == ["NewRevision"]


async def test_an_event_that_is_not_valid_does_not_keep_later_ones_back(passes: Passes) -> None:
    passes.api.fail = refused(422)
    await passes.once()
    passes.api.fail = lambda *_: None
    passes.body["spec"]["model"]["sha256"] = "sha256:" + "cd" * 32
    await passes.once()
    assert "SpecChanged" in told(passes.api)
    assert told(passes.api).count("NewRevision") <= 1


@pytest.mark.case("R82")
async def test_the_end_of_an_attempt_is_told_although_the_operator_died_after_the_status(passes: Passes) -> None:
    await passes.once()
    passes.body["spec"]["model"]["sha256"] = "sha256:" + "cd" * 32
    passes.api.fail = refused(0)
    await passes.once()
    passes.api.fail = lambda *_: None
    assert "SpecChanged" not in told(passes.api)
    left_behind = copy.deepcopy(passes.status)
    for _ in range(2):
        passes.body["status"] = copy.deepcopy(left_behind)
        survivor = Passes(passes.api, passes.reconciler._http)
        survivor.now = NOON + timedelta(seconds=30)
        await survivor.once()
    assert told(passes.api).count("SpecChanged") == 1


async def test_an_end_of_long_ago_is_not_told_again_by_each_operator_that_starts(passes: Passes) -> None:
    await passes.once()
    passes.status["attempt"] |= {"endedAt": "2026-01-01T10:00:00Z", "outcome": "DigestMismatch"}
    passes.status["phase"] = "Failed"
    await Passes(passes.api, passes.reconciler._http).once()
    assert "DigestMismatch" not in told(passes.api)


async def test_an_alert_is_seen_by_the_next_pass_and_said_to_have_been(passes: Passes) -> None:
    board = Board(passes.woken.append)
    passes.reconciler = Reconciler(
        passes.api, passes.reconciler._http, SETTINGS, passes.telemetry, lambda: NOON, passes.woken.append, board=board
    )
    waiting = asyncio.ensure_future(board.report(parse(alert_body(alert()))))
    await asyncio.sleep(0)
    assert passes.woken == [KEY]
    await passes.once()
    (ignored,) = await asyncio.wait_for(waiting, 1)
    assert "is not what serves" in ignored.reason
    del passes.api.objects[kinds.MODEL_DEPLOYMENT, "prod", "chat"]
    waiting = asyncio.ensure_future(board.report(parse(alert_body(alert()))))
    await asyncio.sleep(0)
    await passes.once()
    (ignored,) = await asyncio.wait_for(waiting, 1)
    assert "there is no ModelDeployment" in ignored.reason


def test_the_soonest_wish_counts() -> None:
    assert soonest(None, 3.0, 1.0) == 1.0
    assert soonest(None, None) is None
    assert soonest(0.0, None) == 0.0
