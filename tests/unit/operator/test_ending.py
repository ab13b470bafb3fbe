"""Teardown and release."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from backstay_contract.names import Label
from backstay_operator import kinds
from backstay_operator import release as releasing
from backstay_operator import resource as resources
from backstay_operator.apply.companions import Companions
from backstay_operator.client import ApiError
from backstay_operator.desired.companions import Choice
from backstay_operator.resource import FINALIZER
from backstay_operator.teardown import PODS_SECONDS, Teardown

Json = dict[str, Any]
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
LABELS = {Label.RESOURCE: "chat", Label.MANAGED_BY: "backstay"}


def child(name: str, colour: str = "blue") -> Json:
    owner = {"uid": "uid-1", "controller": True}
    labels = LABELS | {Label.COLOUR: colour}
    metadata = {"name": name, "namespace": "prod", "labels": labels, "ownerReferences": [owner]}
    return {"metadata": metadata, "spec": {}}


@pytest.fixture
def deleted(api: Any, stored: Json) -> Any:
    """A resource with everything, on its way out."""
    body = api.objects[kinds.MODEL_DEPLOYMENT, "prod", "chat"]
    body["metadata"] |= {"deletionTimestamp": "2026-01-01T11:00:00Z", "finalizers": [FINALIZER]}
    api.put(kinds.DEPLOYMENT, child("chat-blue"))
    api.put(kinds.DEPLOYMENT, child("chat-green", "green"))
    api.put(kinds.SERVICE, child("chat"))
    api.put(kinds.SERVICE, child("chat-preview"))
    api.put(kinds.POD, child("chat-blue-1"))
    api.writes.clear()
    return api


def teardown_of(api: Any) -> Teardown:
    return Teardown(api, Companions(api, Choice(), (), lambda: NOON))


async def step(api: Any, teardown: Teardown, now: datetime = NOON) -> float | None:
    body = await api.get(kinds.MODEL_DEPLOYMENT, "prod", "chat")
    return await teardown.step(resources.read(body), now)


def left(api: Any) -> set[str]:
    return {name for kind, _, name in api.objects if kind in (kinds.SERVICE, kinds.DEPLOYMENT)}


@pytest.mark.case("R86")
async def test_the_pods_go_first_and_the_services_wait_for_them(deleted: Any) -> None:
    teardown = teardown_of(deleted)
    assert await step(deleted, teardown) == 1.0
    assert left(deleted) == {"chat", "chat-preview"}
    assert deleted.objects[kinds.MODEL_DEPLOYMENT, "prod", "chat"]["status"]["phase"] == "Terminating"
    del deleted.objects[kinds.POD, "prod", "chat-blue-1"]
    assert await step(deleted, teardown) is None
    assert left(deleted) == set()
    assert deleted.objects[kinds.MODEL_DEPLOYMENT, "prod", "chat"]["metadata"]["finalizers"] == []
    assert deleted.writes[-1] == ("patch", "ModelDeployment", "chat")


async def test_waiting_writes_nothing_again(deleted: Any) -> None:
    teardown = teardown_of(deleted)
    await step(deleted, teardown)
    deleted.writes.clear()
    await step(deleted, teardown)
    assert deleted.writes == []


@pytest.mark.case("K5")
async def test_pods_that_do_not_end_hold_it_for_a_while_only(deleted: Any) -> None:
    teardown = teardown_of(deleted)
    await step(deleted, teardown)
    assert await step(deleted, teardown, NOON + timedelta(seconds=PODS_SECONDS - 1)) == 1.0
    assert await step(deleted, teardown, NOON + timedelta(seconds=PODS_SECONDS)) is None
    assert left(deleted) == set()


async def test_a_deletion_that_began_long_ago_still_gives_the_pods_their_time(deleted: Any) -> None:
    assert await step(deleted, teardown_of(deleted)) == 1.0


async def test_a_status_that_cannot_be_written_holds_nothing_up(deleted: Any) -> None:
    deleted.fail = lambda verb, *_: ApiError(500, "InternalError", "no", "fake") if verb == "apply-status" else None
    del deleted.objects[kinds.POD, "prod", "chat-blue-1"]
    assert await step(deleted, teardown_of(deleted)) is None
    assert left(deleted) == set()


async def test_a_resource_that_we_do_not_hold_is_left_alone(deleted: Any) -> None:
    deleted.objects[kinds.MODEL_DEPLOYMENT, "prod", "chat"]["metadata"]["finalizers"] = ["other/one"]
    assert await step(deleted, teardown_of(deleted)) is None
    assert deleted.writes == []


async def test_children_that_are_gone_already_are_no_error(deleted: Any) -> None:
    for key in [key for key in deleted.objects if key[0] is not kinds.MODEL_DEPLOYMENT]:
        del deleted.objects[key]
    assert await step(deleted, teardown_of(deleted)) is None
    assert deleted.objects[kinds.MODEL_DEPLOYMENT, "prod", "chat"]["metadata"]["finalizers"] == []


@pytest.mark.parametrize("services", [True, False])
async def test_pods_are_waited_for_only_while_something_of_ours_stands_in_front_of_them(
    deleted: Any, services: bool
) -> None:
    """As after a deletion in the foreground: the garbage collector has ended the children already."""
    for key in [key for key in deleted.objects if key[0] in (kinds.DEPLOYMENT, kinds.SERVICE)]:
        if key[0] is kinds.DEPLOYMENT or not services:
            del deleted.objects[key]
    assert await step(deleted, teardown_of(deleted)) == (1.0 if services else None)


async def test_what_kubernetes_orphans_is_left_alone(deleted: Any) -> None:
    deleted.objects[kinds.MODEL_DEPLOYMENT, "prod", "chat"]["metadata"]["finalizers"] = ["orphan", FINALIZER]
    assert await step(deleted, teardown_of(deleted)) is None
    assert left(deleted) == {"chat", "chat-preview", "chat-blue", "chat-green"}
    assert deleted.objects[kinds.MODEL_DEPLOYMENT, "prod", "chat"]["metadata"]["finalizers"] == ["orphan"]
    assert deleted.writes == [("patch", "ModelDeployment", "chat")]


async def test_with_deletion_policy_orphan_everything_stays_and_is_owned_by_nobody(deleted: Any) -> None:
    deleted.objects[kinds.MODEL_DEPLOYMENT, "prod", "chat"]["spec"] = {"deletionPolicy": "Orphan", "model": "invalid"}
    budget = child("chat-blue")
    budget["metadata"]["ownerReferences"].append({"uid": "somebody-else"})
    deleted.put(kinds.POD_DISRUPTION_BUDGET, budget)
    assert await step(deleted, teardown_of(deleted)) is None
    owners = {
        name: [one["uid"] for one in body["metadata"]["ownerReferences"]]
        for (kind, _, name), body in deleted.objects.items()
        if kind in (kinds.SERVICE, kinds.DEPLOYMENT)
    }
    assert owners == {"chat": [], "chat-preview": [], "chat-blue": [], "chat-green": []}
    kept = deleted.objects[kinds.POD_DISRUPTION_BUDGET, "prod", "chat-blue"]["metadata"]["ownerReferences"]
    assert kept == [{"uid": "somebody-else"}]
    assert deleted.objects[kinds.MODEL_DEPLOYMENT, "prod", "chat"]["metadata"]["finalizers"] == []


async def test_a_child_that_goes_while_it_is_let_go_of_is_no_error(deleted: Any) -> None:
    deleted.objects[kinds.MODEL_DEPLOYMENT, "prod", "chat"]["spec"]["deletionPolicy"] = "Orphan"
    gone = ApiError(404, "NotFound", "gone", "fake")
    deleted.fail = lambda verb, kind, _: gone if (verb, kind) == ("patch", kinds.SERVICE) else None
    assert await step(deleted, teardown_of(deleted)) is None


@pytest.mark.case("T36")
@pytest.mark.parametrize("verb", ["list", "delete"])
async def test_without_rights_on_the_children_the_resource_is_let_go_all_the_same(deleted: Any, verb: str) -> None:
    """As in a namespace that is deleted together with the operator's Role."""
    denied = ApiError(403, "Forbidden", "no", "fake")
    deleted.fail = lambda of, kind, _: denied if of == verb and kind is not kinds.MODEL_DEPLOYMENT else None
    assert await step(deleted, teardown_of(deleted)) is None
    assert deleted.objects[kinds.MODEL_DEPLOYMENT, "prod", "chat"]["metadata"]["finalizers"] == []


async def test_an_owner_that_changed_meanwhile_is_tried_again(deleted: Any) -> None:
    deleted.objects[kinds.MODEL_DEPLOYMENT, "prod", "chat"]["spec"]["deletionPolicy"] = "Orphan"
    changed = ApiError(422, "Invalid", "the server rejected our request due to an error in our request", "fake")
    deleted.fail = lambda verb, kind, _: changed if (verb, kind) == ("patch", kinds.SERVICE) else None
    with pytest.raises(ApiError):
        await step(deleted, teardown_of(deleted))
    assert FINALIZER in deleted.objects[kinds.MODEL_DEPLOYMENT, "prod", "chat"]["metadata"]["finalizers"]


# --- release -----------------------------------------------------------------------------------------------------


async def test_release_drops_our_finalizer_and_nothing_else(api: Any, stored: Json) -> None:
    body = api.objects[kinds.MODEL_DEPLOYMENT, "prod", "chat"]
    body["metadata"]["finalizers"] = ["other/one", FINALIZER]
    api.put(kinds.DEPLOYMENT, child("chat-blue"))
    api.writes.clear()
    assert await releasing.release_in(api, None) == 1
    assert await releasing.release_in(api, None) == 0
    assert api.objects[kinds.MODEL_DEPLOYMENT, "prod", "chat"]["metadata"]["finalizers"] == ["other/one"]
    assert api.writes == [("patch", "ModelDeployment", "chat")]


async def test_release_looks_only_into_the_given_namespace(api: Any, stored: Json) -> None:
    api.objects[kinds.MODEL_DEPLOYMENT, "prod", "chat"]["metadata"]["finalizers"] = [FINALIZER]
    assert await releasing.release_in(api, "staging") == 0


async def test_release_tries_again_where_the_resource_changed_meanwhile(api: Any, stored: Json) -> None:
    api.objects[kinds.MODEL_DEPLOYMENT, "prod", "chat"]["metadata"]["finalizers"] = [FINALIZER]
    conflicts = [ApiError(409, "Conflict", "changed", "fake")] * 2
    api.fail = lambda verb, *_: conflicts.pop() if verb == "patch" and conflicts else None
    assert await releasing.release_in(api, "prod") == 1


async def test_release_gives_up_on_a_refusal(api: Any, stored: Json) -> None:
    api.objects[kinds.MODEL_DEPLOYMENT, "prod", "chat"]["metadata"]["finalizers"] = [FINALIZER]
    api.fail = lambda verb, *_: ApiError(403, "Forbidden", "no", "fake") if verb == "patch" else None
    with pytest.raises(ApiError, match="Forbidden"):
        await releasing.release_in(api, "prod")


async def test_release_without_the_crd_has_nothing_to_do(api: Any) -> None:
    api.fail = lambda verb, *_: ApiError(404, "NotFound", "no such kind", "fake")
    assert await releasing.release_in(api, None) == 0
