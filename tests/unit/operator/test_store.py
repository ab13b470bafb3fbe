"""What the watches said: kept in the latest state, listed anew, and never written because of."""

import copy
from typing import Any

import pytest
from backstay_contract.names import Label
from backstay_operator import kinds, store
from backstay_operator import resource as resources
from backstay_operator.kinds import Kind
from backstay_operator.queue import Key
from backstay_operator.reconcile import Reconciler
from backstay_operator.store import BeyondStoreError, Store, StoreClient
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.operator.test_reconcile import KEY, NOON, SETTINGS, Passes

Json = dict[str, Any]
POD = kinds.POD


def pod(name: str = "chat-blue-1", version: int = 1, of: str = "chat", **more: Any) -> Json:
    labels = {Label.RESOURCE: of} if of else {}
    return {"metadata": {"namespace": "prod", "name": name, "resourceVersion": str(version), "labels": labels}, **more}


def test_an_object_is_kept_in_its_latest_state_whatever_the_order() -> None:
    one = Store()
    assert one.put(POD, pod(version=2, spec={"a": 2})) is True
    assert one.put(POD, pod(version=2, spec={"a": 2})) is False
    assert one.put(POD, pod(version=1, spec={"a": 1})) is False
    found = one.get(POD, "prod", "chat-blue-1")
    assert found is not None
    assert (found["spec"], found["kind"], found["apiVersion"]) == ({"a": 2}, "Pod", "v1")


def test_an_older_list_does_not_bring_back_what_went() -> None:
    one = Store()
    one.put(POD, pod(version=1))
    one.drop(POD, pod(version=5))
    assert one.put(POD, pod(version=1)) is False
    assert one.children(POD, KEY) == []
    assert one.put(POD, pod(version=6)) is True


def test_a_child_whose_label_changed_belongs_to_the_other_resource_only() -> None:
    one = Store()
    one.put(POD, pod(version=1))
    one.put(POD, pod(version=2, of="other"))
    assert one.children(POD, KEY) == []
    assert len(one.children(POD, Key("prod", "other"))) == 1


def test_managed_fields_cost_no_memory() -> None:
    one = Store()
    body = pod()
    body["metadata"]["managedFields"] = [{"manager": "x"}]
    one.put(POD, body)
    found = one.get(POD, "prod", "chat-blue-1")
    assert found is not None
    assert "managedFields" not in found["metadata"]
    assert "managedFields" in body["metadata"]


versions = st.integers(1, 9)
events = st.lists(st.tuples(st.sampled_from("abc"), versions, st.booleans()), max_size=12)


@given(events, st.dictionaries(st.sampled_from("abc"), versions, max_size=3), versions)
def test_a_list_leaves_what_it_holds_or_what_is_younger(seen: Any, listed: dict[str, int], as_of: int) -> None:
    one = Store()
    for name, version, gone in seen:
        (one.drop if gone else one.put)(POD, pod(name, version))
    listed = {name: min(version, as_of) for name, version in listed.items()}
    for name, version in listed.items():
        one.put(POD, pod(name, version))
    one.sweep(POD, None, {("prod", name) for name in listed}, as_of)
    for name in "abc":
        found = one.get(POD, "prod", name)
        if found is not None:
            version = int(found["metadata"]["resourceVersion"])
            assert name in listed or version > as_of
        one.put(POD, pod(name, 100))
    assert len(one) == len(one.children(POD, KEY)) == 3


def test_a_list_of_one_namespace_leaves_alone_what_went_elsewhere() -> None:
    one = Store()
    one.drop(POD, pod("a", 90))
    one.sweep(POD, "other", set(), 100)
    assert not one.put(POD, pod("a", 70))
    one.sweep(POD, "prod", set(), 100)
    assert one.put(POD, pod("a", 101))


class Lists:
    """The client's lists, in pages."""

    def __init__(self, api: Any) -> None:
        self.api = api

    async def listed(self, kind: Kind, namespace: str | None, labels: dict[str, str]) -> Any:
        found = await self.api.list_all(kind, namespace, labels)
        for body in found:
            yield [body], self.api.version
        if not found:
            yield [], self.api.version


WATCHED = (kinds.MODEL_DEPLOYMENT, kinds.DEPLOYMENT, kinds.SERVICE, kinds.POD, kinds.ENDPOINT_SLICE)


async def refreshed(api: Any, one: Store, namespaces: tuple[str, ...] = ()) -> set[Key]:
    return await store.refresh(Lists(api), one, WATCHED, namespaces)  # type: ignore[arg-type]


async def test_listing_anew_finds_what_no_watch_told(api: Any, http: Any, stored: Json) -> None:
    one = Store()
    await Passes(api, http).once()
    assert await refreshed(api, one) == {KEY}
    assert await refreshed(api, one) == set()
    del api.objects[kinds.DEPLOYMENT, "prod", "chat-blue"]
    api.version += 1
    assert await refreshed(api, one) == {KEY}
    assert one.get(kinds.DEPLOYMENT, "prod", "chat-blue") is None
    assert await refreshed(api, Store(), ("other",)) == set()


async def rest(api: Any) -> Json:
    """A resource that failed for good: nothing is under way."""
    body: Json = api.objects[kinds.MODEL_DEPLOYMENT, "prod", "chat"]
    body["status"]["attempt"] |= {"endedAt": "2026-01-01T10:00:00Z", "outcome": "DigestMismatch"}
    body["status"]["rejected"] = [
        {
            "digest": body["spec"]["model"]["sha256"],
            "revision": body["status"]["attempt"]["revision"],
            "version": "1.0.0",
            "attempt": body["status"]["attempt"]["id"],
            "reason": "DigestMismatch",
            "at": "2026-01-01T10:00:00Z",
        }
    ]
    body["status"]["phase"] = "Failed"
    return body


async def settled(api: Any, http: Any) -> tuple[Passes, Store]:
    passes, one = Passes(api, http), Store()
    await passes.once()
    await rest(api)
    for _ in range(4):
        await passes.once()
    await refreshed(api, one)
    telemetry, woken = passes.telemetry, passes.woken.append
    passes.reconciler = Reconciler(api, http, SETTINGS, telemetry, lambda: NOON, woken, store=one)
    return passes, one


async def test_a_pass_at_rest_asks_the_api_server_nothing(api: Any, http: Any, stored: Json) -> None:
    passes, _ = await settled(api, http)
    assert resources.is_at_rest(passes.body)
    await passes.once()  # the first one lists the companions
    asked: list[str] = []
    api.fail = lambda verb, *_: asked.append(verb)
    for _ in range(3):
        await passes.once()
    assert asked == []


async def test_a_pass_that_wants_to_write_goes_by_what_is_there_now(api: Any, http: Any, stored: Json) -> None:
    """The watch is late: it still says that there is a Service, and that the spec is the old one."""
    passes, one = await settled(api, http)
    before = copy.deepcopy(api.objects)
    api.objects[kinds.MODEL_DEPLOYMENT, "prod", "chat"]["spec"]["model"]["sha256"] = "sha256:" + "cd" * 32
    stale = one.get(kinds.SERVICE, "prod", "chat-preview")
    assert stale is not None
    stale["metadata"]["resourceVersion"] = "10000"
    stale["spec"]["selector"] = {"somebody": "else"}
    one.put(kinds.SERVICE, stale)
    await passes.once()
    assert passes.status["phase"] == "Starting"
    assert api.objects[kinds.SERVICE, "prod", "chat"] == before[kinds.SERVICE, "prod", "chat"]


@pytest.mark.parametrize(
    "change",
    [
        {"phase": "Soaking"},
        {"observedGeneration": 0},
        {"returning": {"to": "r"}},
        {"attempt": {"id": "r-1"}},
    ],
)
def test_what_is_under_way_is_not_at_rest(change: Json) -> None:
    body: Json = {"metadata": {"generation": 1}, "status": {"phase": "Serving", "observedGeneration": 1}}
    assert resources.is_at_rest(body)
    assert not resources.is_at_rest({**body, "status": body["status"] | change})
    assert not resources.is_at_rest({**body, "metadata": {"generation": 1, "deletionTimestamp": "t"}})


async def test_the_client_of_a_pass_at_rest_can_neither_write_nor_look_further() -> None:
    client = StoreClient(Store())
    with pytest.raises(BeyondStoreError):
        await client.create(kinds.EVENT, pod())
    with pytest.raises(BeyondStoreError):
        await client.list_all(kinds.POD, None)
    with pytest.raises(BeyondStoreError):
        await client.delete(kinds.POD, "prod", "x", "u")
