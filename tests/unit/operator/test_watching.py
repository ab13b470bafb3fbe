import asyncio
import logging
from typing import Any

import kopf
import pytest
from backstay_contract.names import Label
from backstay_operator import handlers, kinds, queue
from backstay_operator.handlers import Watcher, essence
from backstay_operator.queue import Key
from backstay_operator.store import Store

Json = dict[str, Any]


def body(generation: int = 1, version: int = 9, **metadata: Any) -> Json:
    own = {"namespace": "ns", "name": "a", "uid": "u", "generation": generation, "resourceVersion": str(version)}
    return {"metadata": own | metadata}


def watched() -> tuple[Watcher, list[Key]]:
    keys: list[Key] = []
    return Watcher(keys.append, Store()), keys


def test_a_change_of_the_status_alone_asks_for_no_pass() -> None:
    watcher, keys = watched()
    watcher.on_resource(False, body())
    watcher.on_resource(False, {**body(version=10), "status": {"phase": "Serving"}})
    assert keys == [Key("ns", "a")]


def test_a_change_of_spec_finalizers_or_deletion_asks_for_a_pass() -> None:
    watcher, keys = watched()
    for change in (
        body(1, 1),
        body(2, 2),
        body(2, 3, finalizers=["x"]),
        body(2, 4, finalizers=["x"], deletionTimestamp="t"),
        body(2, 5, uid="v"),
    ):
        watcher.on_resource(False, change)
    assert len(keys) == 5


def test_a_resource_that_went_and_came_again_is_looked_at_each_time() -> None:
    watcher, keys = watched()
    watcher.on_resource(False, body(version=1))
    watcher.on_resource(True, body(version=2))
    watcher.on_resource(False, body(version=3))
    assert len(keys) == 3


def test_resources_do_not_hide_each_other() -> None:
    watcher, keys = watched()
    watcher.on_resource(False, body())
    watcher.on_resource(False, body(name="b"))
    assert keys == [Key("ns", "a"), Key("ns", "b")]


def test_a_child_asks_for_its_resource_and_a_strangers_for_nothing() -> None:
    watcher, keys = watched()
    watcher.on_child(kinds.POD, False, body(name="a-blue-1", labels={Label.RESOURCE: "a"}))
    watcher.on_child(kinds.POD, False, body(name="other", labels={}))
    assert keys == [Key("ns", "a")]


def test_what_is_only_listed_again_asks_for_no_pass() -> None:
    watcher, keys = watched()
    child = body(name="a-blue-1", labels={Label.RESOURCE: "a"})
    for _ in range(2):
        watcher.on_resource(False, body())
        watcher.on_child(kinds.POD, False, child)
    assert keys == [Key("ns", "a")] * 2
    watcher.on_child(kinds.POD, True, {"metadata": {**child["metadata"], "resourceVersion": "12"}})
    assert len(keys) == 3


def test_labels_and_annotations_of_a_resource_decide_nothing() -> None:
    assert essence(body(labels={"a": "b"}, annotations={"c": "d"})) == essence(body())


async def test_a_watch_that_fails_is_started_again_and_that_is_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ends: list[Exception | None] = [RuntimeError("403 Forbidden"), None, RuntimeError("410 Gone")]
    steady = asyncio.Event()

    async def once(*_: Any) -> None:
        if not ends:
            steady.set()
            await asyncio.Event().wait()
        end = ends.pop(0)
        if end is not None:
            raise end

    monkeypatch.setattr(handlers, "_watch_once", once)
    monkeypatch.setattr(queue, "BACKOFF_FIRST_SECONDS", 0.001)
    watcher, _ = watched()
    with caplog.at_level(logging.WARNING):
        watching = asyncio.create_task(handlers.watch(watcher, ()))
        await asyncio.wait_for(steady.wait(), 5)
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    assert ["403" in line or "ended" in line or "410" in line for line in caplog.messages] == [True] * 3


def test_the_watching_library_only_watches() -> None:
    registry = handlers.registry(Watcher(lambda _: None, Store()), lambda action: action())
    resources = registry._watching.get_all_handlers()
    (handler,) = resources
    assert handler.selector is not None
    assert (handler.selector.any_name or handler.selector.plural) == "modeldeployments"
    assert not registry._changing.get_all_handlers()
    assert not registry._spawning.get_all_handlers()
    chosen = handlers.settings()
    assert isinstance(chosen, kopf.OperatorSettings)
    assert (chosen.posting.enabled, chosen.scanning.disabled) == (False, True)
