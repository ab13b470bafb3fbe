"""Notices on their way, with an API server in memory and a receiver that answers as a test says."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from backstay_contract.reasons import Reason
from backstay_contract.status import ModelDeploymentStatus
from backstay_operator import kinds, queue
from backstay_operator.apply import events
from backstay_operator.client import ApiError
from backstay_operator.desired.common import Owner
from backstay_operator.http import Answer, HttpError
from backstay_operator.notify import notices, outbox
from backstay_operator.notify.formats import Format
from backstay_operator.notify.outbox import GAVE_UP, Outbox, notified
from backstay_operator.notify.sinks import Sink
from backstay_operator.rollout.decision import Event

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
OWNER = Owner("prod", "chat", "uid-1")
SECRET = "https://hooks.example/T0/very-secret"
OK, BUSY = Answer(200, {}, b""), Answer(503, {}, b"")

pytestmark = pytest.mark.case("R82")


class Post:
    """The cluster's Events, the receivers, and the operators that come and go."""

    def __init__(self, api: Any, http: Any, folder: Path) -> None:
        self.api = api
        self.http = http
        self.folder = folder
        self.counted: list[tuple[str, str]] = []

    def sink(self, name: str = "oncall", **fields: Any) -> Sink:
        file = self.folder / name
        file.write_text(SECRET)
        return Sink(name=name, format=Format.CLOUD_EVENTS, url_file=file, **fields)

    def outbox(self, *sinks: Sink) -> Outbox:
        return Outbox(self.api, self.http, sinks, lambda *what: self.counted.append(what), chance=lambda: 0.0)

    async def happen(self, number: int = 1, reason: Reason = Reason.BREACH) -> Any:
        notice = notices.of(Event(f"r-{number}.ended", reason, "said", warning=True), ModelDeploymentStatus(), NOON)
        return await events.tell(self.api, OWNER, notice, "op")

    @property
    def received(self) -> list[str]:
        return [given["body"]["id"] for _, _, given in self.http.requests]

    def marks(self) -> list[str | None]:
        found = [body for (kind, _, _), body in self.api.objects.items() if kind is kinds.EVENT]
        return [event["metadata"]["annotations"].get(notified("oncall")) for event in found]


@pytest.fixture
def post(api: Any, http: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Post:
    monkeypatch.setattr(queue, "BACKOFF_FIRST_SECONDS", 0.001)
    monkeypatch.setattr(queue, "BACKOFF_MOST_SECONDS", 0.002)
    http.answer("POST", "hooks.example", OK)
    return Post(api, http, tmp_path)


@contextlib.asynccontextmanager
async def running(one: Outbox) -> AsyncIterator[None]:
    task = asyncio.create_task(one.run(()))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def until(what: Any) -> None:
    async with asyncio.timeout(5):
        while not what():  # noqa: ASYNC110 - the fakes tell nobody
            await asyncio.sleep(0.001)


async def test_a_notice_is_sent_once_and_the_event_says_so(post: Post) -> None:
    one = post.outbox(post.sink())
    async with running(one):
        event = await post.happen()
        one.offer(event)
        await until(lambda: post.marks() != [None])
        one.offer(await post.api.get(kinds.EVENT, "prod", event["metadata"]["name"]))
        await asyncio.sleep(0.02)
    assert len(post.received) == 1
    assert post.counted == [("oncall", "sent")]


@pytest.mark.case("R83")
async def test_one_that_starts_sends_what_the_one_before_it_did_not(post: Post) -> None:
    for number in (1, 2):
        await post.happen(number)
    async with running(post.outbox(post.sink())):
        await until(lambda: None not in post.marks())
    async with running(post.outbox(post.sink())):
        await asyncio.sleep(0.02)
    assert len(post.received) == len(set(post.received)) == 2


async def test_one_that_died_after_it_sent_leaves_a_second_one_with_the_same_id(post: Post) -> None:
    dead = ApiError(0, "Killed", "the process is gone", "fake")
    post.api.fail = lambda verb, kind, _: dead if (verb, kind) == ("patch", kinds.EVENT) else None
    one = post.outbox(post.sink())
    async with running(one):
        one.offer(await post.happen())
        await until(lambda: post.counted)
    post.api.fail = lambda *_: None
    async with running(post.outbox(post.sink())):
        await until(lambda: post.marks() != [None])
    assert len(post.received) == 2
    assert len(set(post.received)) == 1


async def test_three_operators_of_which_one_leads_at_a_time_send_one_notice(post: Post) -> None:
    event = await post.happen()
    for _ in range(3):
        one = post.outbox(post.sink())
        async with running(one):
            one.offer(await post.api.get(kinds.EVENT, "prod", event["metadata"]["name"]))
            await until(lambda: post.marks() != [None])
            await asyncio.sleep(0.01)
    assert len(post.received) == 1


async def test_a_receiver_that_is_away_gets_it_when_it_is_back(post: Post) -> None:
    answers = [HttpError("no answer within 10 s"), BUSY, OK]
    post.http.answer("POST", "hooks.example", lambda _: answers.pop(0))
    one = post.outbox(post.sink())
    async with running(one):
        one.offer(await post.happen())
        await until(lambda: post.marks() != [None])
    assert [outcome for _, outcome in post.counted] == ["failed", "failed", "sent"]
    assert len(set(post.received)) == 1


@pytest.mark.parametrize(("answer", "tries"), [(BUSY, outbox.TRIES), (Answer(404, {}, b""), 1)])
async def test_it_is_given_up_in_the_end_and_that_is_seen(
    post: Post, answer: Answer, tries: int, caplog: pytest.LogCaptureFixture
) -> None:
    post.http.answer("POST", "hooks.example", answer)
    one = post.outbox(post.sink())
    with caplog.at_level(logging.WARNING):
        async with running(one):
            one.offer(await post.happen())
            await until(lambda: post.marks() == [GAVE_UP])
    assert len(post.received) == tries
    assert post.counted[-1] == ("oncall", "given_up")
    assert "given up after" in caplog.text
    async with running(post.outbox(post.sink())):
        await asyncio.sleep(0.01)
    assert len(post.received) == tries


async def test_a_url_is_in_no_log_whatever_the_library_says(post: Post, caplog: pytest.LogCaptureFixture) -> None:
    post.http.answer("POST", "hooks.example", HttpError(f"ConnectError: {SECRET} is away"))
    one = post.outbox(post.sink())
    with caplog.at_level(logging.DEBUG):
        async with running(one):
            one.offer(await post.happen())
            await until(lambda: post.marks() == [GAVE_UP])
    assert "very-secret" not in caplog.text
    assert "oncall" in caplog.text


async def test_a_sink_that_is_down_keeps_no_other_waiting(post: Post) -> None:
    post.sink("broken")
    (post.folder / "broken").write_text("https://down.example/x")
    post.http.answer("POST", "down.example", BUSY)
    broken = Sink(name="broken", format=Format.SLACK, url_file=post.folder / "broken")
    one = post.outbox(broken, post.sink())
    async with running(one):
        one.offer(await post.happen())
        await until(lambda: ("oncall", "sent") in post.counted)


async def test_a_sink_gets_only_the_reasons_it_asks_for(post: Post) -> None:
    one = post.outbox(post.sink(reasons=(Reason.VERIFIED,)))
    async with running(one):
        one.offer(await post.happen(1, Reason.BREACH))
        one.offer(await post.happen(2, Reason.VERIFIED))
        await until(lambda: post.counted)
    (sent,) = post.http.requests
    assert sent[2]["body"]["data"]["reason"] == "Verified"


async def test_an_event_of_another_kind_is_left_alone(post: Post) -> None:
    one = post.outbox(post.sink())
    one.offer({"metadata": {"namespace": "prod", "name": "x"}})
    one.offer({"metadata": {"namespace": "prod", "name": "x", "annotations": {"backstay.dev/notice": "not json"}}})
    async with running(one):
        await asyncio.sleep(0.01)
    assert post.received == []


async def test_without_sinks_nothing_is_asked_of_the_cluster(post: Post) -> None:
    post.api.fail = lambda *_: ApiError(500, "X", "must not be asked", "fake")
    await post.outbox().run(())
    assert post.api.writes == []


async def test_events_that_cannot_be_listed_stop_no_new_notice(post: Post) -> None:
    post.api.fail = lambda verb, *_: ApiError(403, "Forbidden", "no", "fake") if verb == "list" else None
    one = post.outbox(post.sink())
    async with running(one):
        one.offer(await post.happen())
        await until(lambda: post.marks() != [None])
    assert len(post.received) == 1
