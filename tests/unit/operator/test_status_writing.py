import copy
import logging
from typing import Any

import pytest
from backstay_operator import kinds
from backstay_operator import resource as resources
from backstay_operator.apply import finalizer
from backstay_operator.apply.status import operations, write
from backstay_operator.client import ApiError
from backstay_operator.resource import FINALIZER
from hypothesis import given
from hypothesis import strategies as st

Json = dict[str, Any]

values = st.recursive(
    st.integers() | st.booleans() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=2), inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(st.text("abc", max_size=2), values, max_size=4)


def patched(status: Json, patch: list[Json]) -> Json:
    result = dict(status)
    for operation in patch:
        _, _, key = operation["path"].removeprefix("/status").rpartition("/")
        if operation["op"] == "remove":
            del result[key]
        elif operation["path"] == "/status":
            result = operation["value"]
        else:
            result[key] = operation["value"]
    return result


@given(objects, objects)
def test_the_patch_makes_the_old_status_to_the_new_one(old: Json, new: Json) -> None:
    assert patched(old, operations(old, new)) == new


@given(objects)
def test_equal_statuses_need_no_patch_and_a_missing_one_is_added_whole(status: Json) -> None:
    assert operations(status, copy.deepcopy(status)) == []
    assert patched({}, operations(None, status)) == status


def test_a_field_that_vanished_is_removed_and_an_unchanged_one_is_not_sent() -> None:
    old = {"candidate": {"ready": 1}, "active": {"ready": 2, "digest": "a"}, "list": [1, 2]}
    new = {"active": {"ready": 2}, "list": [1, 2]}
    assert operations(old, new) == [
        {"op": "remove", "path": "/status/candidate"},
        {"op": "add", "path": "/status/active", "value": {"ready": 2}},
    ]


def test_a_whole_number_that_comes_back_without_its_point_is_the_same() -> None:
    assert operations({"limit": 200}, {"limit": 200.0}) == []


async def test_an_unchanged_status_is_not_written(api: Any, stored: Json) -> None:
    resource = resources.read({**stored, "status": {"phase": "Serving"}})
    assert await write(api, resource, {"phase": "Serving"}) is False
    assert api.writes == []


async def test_a_status_that_changed_is_applied_in_one_write(api: Any, stored: Json) -> None:
    assert await write(api, resources.read(stored), {"phase": "Serving"}) is True
    assert [verb for verb, *_ in api.writes] == ["apply-status"]
    assert api.objects[kinds.MODEL_DEPLOYMENT, "prod", "chat"]["status"] == {"phase": "Serving"}


async def test_what_somebody_else_wrote_into_the_status_is_taken_away(api: Any, stored: Json) -> None:
    body = api.put(kinds.MODEL_DEPLOYMENT, {**stored, "status": {"message": "theirs", "phase": "Held"}})
    api.others["status"] = {"message"}
    await write(api, resources.read(body), {"phase": "Serving"})
    assert api.objects[kinds.MODEL_DEPLOYMENT, "prod", "chat"]["status"] == {"phase": "Serving"}
    assert [verb for verb, *_ in api.writes] == ["apply-status", "patch-status"]


async def test_under_an_older_crd_the_status_is_written_as_far_as_that_goes(
    api: Any, stored: Json, caplog: pytest.LogCaptureFixture
) -> None:
    undeclared = ApiError(500, "Internal Server Error", ".status.newer: field not declared in schema", "fake")
    api.fail = lambda verb, *_: undeclared if verb == "apply-status" else None
    with caplog.at_level(logging.WARNING):
        assert await write(api, resources.read(stored), {"phase": "Serving", "newer": 1}) is True
    assert api.objects[kinds.MODEL_DEPLOYMENT, "prod", "chat"]["status"]["phase"] == "Serving"
    assert "older than this operator, update it" in caplog.text


async def test_any_other_refusal_of_a_status_is_an_error(api: Any, stored: Json) -> None:
    api.fail = lambda verb, *_: ApiError(500, "InternalError", "no", "fake") if verb == "apply-status" else None
    with pytest.raises(ApiError):
        await write(api, resources.read(stored), {"phase": "Serving"})
    assert api.writes == []


async def test_a_status_is_never_written_to_another_resource_of_the_same_name(api: Any, stored: Json) -> None:
    resource = resources.read(stored)
    api.put(kinds.MODEL_DEPLOYMENT, {**stored, "metadata": {**stored["metadata"], "uid": "uid-2"}})
    with pytest.raises(ApiError) as error:
        await write(api, resource, {"phase": "Serving"})
    assert error.value.conflict


async def test_the_finalizer_is_added_once_and_keeps_the_others(api: Any, stored: Json) -> None:
    api.objects[kinds.MODEL_DEPLOYMENT, "prod", "chat"]["metadata"]["finalizers"] = ["other/one"]
    body = await api.get(kinds.MODEL_DEPLOYMENT, "prod", "chat")
    held = await finalizer.add(api, resources.read(body))
    assert held.held
    body = await api.get(kinds.MODEL_DEPLOYMENT, "prod", "chat")
    assert body["metadata"]["finalizers"] == ["other/one", FINALIZER]
    assert held.body == body
    assert await finalizer.add(api, held) is held
    assert await finalizer.drop(api, resources.read(body)) is True
    body = await api.get(kinds.MODEL_DEPLOYMENT, "prod", "chat")
    assert body["metadata"]["finalizers"] == ["other/one"]
    assert await finalizer.drop(api, resources.read(body)) is False


async def test_a_finalizer_that_somebody_added_meanwhile_is_not_lost(api: Any, stored: Json) -> None:
    resource = resources.read(stored)
    api.put(kinds.MODEL_DEPLOYMENT, api.objects[kinds.MODEL_DEPLOYMENT, "prod", "chat"])
    with pytest.raises(ApiError) as error:
        await finalizer.add(api, resource)
    assert error.value.conflict
