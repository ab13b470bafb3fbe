"""The watch of children, against an API server on loopback that says what a test wants."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from backstay_contract.names import Label
from backstay_operator import client as clients
from backstay_operator import handlers, kinds, queue, watch
from backstay_operator.client import ApiError, Client
from backstay_operator.queue import Key
from backstay_operator.store import Store
from kubernetes.aio import client as generated

Json = dict[str, Any]
A, B = Key("prod", "a"), Key("prod", "b")


def pod(of: str, version: int, **more: Any) -> Json:
    labels = {Label.RESOURCE: of, Label.MANAGED_BY: "backstay"}
    own = {"name": f"{of}-blue-1", "namespace": "prod", "labels": labels, "resourceVersion": str(version)}
    return {"metadata": own, **more}


def event(kind: str, body: Json) -> bytes:
    return json.dumps({"type": kind, "object": body}).encode() + b"\n"


def bookmark(version: int) -> bytes:
    return event("BOOKMARK", {"metadata": {"resourceVersion": str(version)}})


TOO_OLD = event("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"})


class Pods:
    """Lists what `there` holds, and plays one of `watches` for each watch that begins; after the last it is silent."""

    def __init__(self) -> None:
        self.there: list[Json] = []
        self.then: list[Json] | None = None
        """What is there at the next list."""
        self.version = 10
        self.watches: list[list[bytes] | int] = []
        self.began: list[str] = []
        """`list`, or the version that a watch began at."""
        self.queries: list[dict[str, str]] = []
        self.idle = asyncio.Event()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.queries.append(dict(request.query))
        if "watch" not in request.query:
            self.began.append("list")
            answer = web.json_response({"metadata": {"resourceVersion": str(self.version)}, "items": self.there})
            self.there = self.there if self.then is None else self.then
            return answer
        self.began.append(request.query["resourceVersion"])
        if not self.watches:
            self.idle.set()
            await asyncio.Event().wait()
        play = self.watches.pop(0)
        if isinstance(play, int):
            return web.json_response({"reason": "No", "message": "no"}, status=play)
        response = web.StreamResponse()
        await response.prepare(request)
        for part in play:
            await response.write(part)
            await asyncio.sleep(0.001)
        if request.transport is not None and play and not play[-1].endswith(b"\n"):
            request.transport.abort()  # in the middle of a line
        return response


@pytest.fixture
async def pods(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Pods, Client]]:
    monkeypatch.setattr(queue, "BACKOFF_FIRST_SECONDS", 0.001)
    monkeypatch.setattr(queue, "BACKOFF_MOST_SECONDS", 0.002)
    monkeypatch.setattr(watch, "PAUSE_SECONDS", 0.001)
    one = Pods()
    app = web.Application()
    app.router.add_route("GET", "/api/v1/pods", one.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    async with Client(generated.Configuration(host=f"http://127.0.0.1:{runner.addresses[0][1]}")) as client:
        yield one, client
    await runner.cleanup()


async def watched(pods: Pods, client: Client) -> tuple[list[Key], Store]:
    """The keys that were woken until nothing more is played, and what is kept then."""
    keys: list[Key] = []
    store = Store()
    watcher = handlers.Watcher(keys.append, store)
    task = asyncio.create_task(watch.children(client, watcher, store, kinds.POD, None))
    async with asyncio.timeout(5):
        await pods.idle.wait()
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    return keys, store


async def test_what_is_there_and_what_changes_later_asks_for_passes(pods: tuple[Pods, Client]) -> None:
    server, client = pods
    server.there = [pod("a", 5)]
    server.watches = [[event("ADDED", pod("b", 11)), event("MODIFIED", pod("a", 12)), event("DELETED", pod("b", 13))]]
    keys, store = await watched(server, client)
    assert keys == [A, B, A, B]
    assert [len(store.children(kinds.POD, key)) for key in (A, B)] == [1, 0]
    assert server.began == ["list", "10", "13"]
    assert server.queries[1]["labelSelector"] == f"{Label.MANAGED_BY}=backstay"
    assert server.queries[1]["allowWatchBookmarks"] == "true"


async def test_what_was_known_already_asks_for_nothing(pods: tuple[Pods, Client]) -> None:
    server, client = pods
    server.there = [pod("a", 5)]
    server.watches = [[event("ADDED", pod("a", 5)), bookmark(20)]]
    keys, _ = await watched(server, client)
    assert keys == [A]
    assert server.began == ["list", "10", "20"]


@pytest.mark.case("T39")
async def test_a_version_that_is_too_long_ago_lists_anew_and_finds_what_was_missed(pods: tuple[Pods, Client]) -> None:
    server, client = pods
    server.there = [pod("a", 5)]
    server.then = [pod("b", 30)]
    server.watches = [[TOO_OLD]]
    keys, store = await watched(server, client)
    assert server.began == ["list", "10", "list", "10"]
    assert keys[0] == A
    assert sorted(keys[1:]) == [A, B]
    assert [len(store.children(kinds.POD, key)) for key in (A, B)] == [0, 1]


async def test_a_watch_that_breaks_off_in_the_middle_of_a_line_goes_on_where_it_was(
    pods: tuple[Pods, Client],
) -> None:
    server, client = pods
    server.watches = [
        [event("ADDED", pod("a", 11)), event("MODIFIED", pod("a", 12))[:40]],
        [event("ADDED", pod("b", 13))],
    ]
    keys, _ = await watched(server, client)
    assert keys == [A, B]
    assert server.began == ["list", "10", "11", "13"]


@pytest.mark.parametrize(
    "garbage",
    [
        b"\n",
        b"{}\n",
        b"[]\n",
        b'{"type": "ADDED", "object": {}}\n',
        b'{"type": "ADDED", "object": null}\n',
        event("ADDED", {"metadata": {"resourceVersion": "x", "name": "a", "namespace": "n"}}),
        event("ADDED", {"metadata": {"resourceVersion": "12", "name": "a"}}),
        b"x\n",
    ],
)
async def test_what_is_no_event_ends_the_watch_and_nothing_else(pods: tuple[Pods, Client], garbage: bytes) -> None:
    server, client = pods
    server.watches = [[event("ADDED", pod("a", 11)), garbage], [event("ADDED", pod("b", 13))]]
    keys, _ = await watched(server, client)
    assert keys == [A, B]


@pytest.mark.parametrize("status", [403, 429, 500, 503])
async def test_a_refused_watch_is_tried_again(pods: tuple[Pods, Client], status: int) -> None:
    server, client = pods
    server.watches = [status, [event("ADDED", pod("a", 11))]]
    keys, _ = await watched(server, client)
    assert keys == [A]
    assert server.began == ["list", "10", "10", "11"]


async def test_a_refusal_with_410_lists_anew(pods: tuple[Pods, Client]) -> None:
    server, client = pods
    server.watches = [410]
    await watched(server, client)
    assert server.began == ["list", "10", "list", "10"]


async def test_an_object_of_a_megabyte_is_read_whole(pods: tuple[Pods, Client]) -> None:
    server, client = pods
    server.watches = [[event("ADDED", pod("a", 11, padding="x" * 1_200_000)), event("ADDED", pod("b", 12))]]
    keys, store = await watched(server, client)
    assert keys == [A, B]
    assert len(store.children(kinds.POD, A)[0]["padding"]) == 1_200_000


async def test_a_watch_that_is_silent_for_too_long_is_dead(
    pods: tuple[Pods, Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, client = pods
    monkeypatch.setattr(clients, "SILENT_SECONDS", 0.05)
    with pytest.raises(ApiError, match=r"nothing was told for 0\.05 s"):
        async for _ in client.watch(kinds.POD, None, {}, 10):
            pass
    assert server.idle.is_set()


async def test_a_quiet_watch_that_is_cut_after_a_while_never_waits_longer_for_the_next(
    pods: tuple[Pods, Client], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    server, client = pods
    monkeypatch.setattr(watch, "STEADY_SECONDS", 0.0)
    server.watches = [[b'{"type":'] for _ in range(12)]
    waits: list[int] = []

    def backoff(failures: int, _: float) -> float:
        waits.append(failures)
        return 0.001

    monkeypatch.setattr(watch, "backoff_seconds", backoff)
    await watched(server, client)
    assert waits == [1] * 12
    assert not [record for record in caplog.records if record.levelname == "WARNING"]


async def test_an_error_of_another_kind_ends_no_watch(
    pods: tuple[Pods, Client], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    server, client = pods
    plain, broken = client.watch, [True]

    def once(*given: Any) -> Any:
        if broken:
            broken.pop()
            raise RuntimeError("no token")
        return plain(*given)

    monkeypatch.setattr(client, "watch", once)
    server.watches = [[event("ADDED", pod("a", 11))]]
    keys, _ = await watched(server, client)
    assert keys == [A]
    assert "RuntimeError" in caplog.text
