import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from backstay_operator.alerts.board import MAX_FIRING, Board, Ignored
from backstay_operator.alerts.payload import parse
from backstay_operator.queue import Key
from backstay_operator.rollout.observation import Serving

from tests.unit.operator.alerts.build import DIGEST, alert, body

KEY = Key("prod", "chat")
OTHER = "sha256:" + "cd" * 32


class Passes:
    """Passes over resources: what each saw, and what serves."""

    def __init__(self, *, serves: str | None = DIGEST, exists: bool = True, namespaces: tuple[str, ...] = ()) -> None:
        self.serving = None if serves is None else Serving(serves)
        self.exists = exists
        self.works = True
        self.saw: list[tuple[str, ...]] = []
        self.board = Board(self.wake, namespaces)

    def wake(self, key: Key) -> None:
        asyncio.get_running_loop().call_soon(self.run, key)

    def run(self, key: Key) -> None:
        version, alerts = self.board.firing(key)
        self.saw.append(tuple(one.fingerprint for one in alerts))
        if self.works:
            self.board.passed(key, version, self.serving, exists=self.exists)

    async def report(self, *alerts: Any) -> tuple[Ignored, ...]:
        async with asyncio.timeout(2):
            return await self.board.report(parse(body(*alerts)))


async def test_a_pass_sees_the_alert_before_it_is_answered() -> None:
    passes = Passes()
    assert await passes.report(alert()) == ()
    assert passes.saw == [("f00d",)]


async def test_the_same_alert_again_is_one_alert() -> None:
    passes = Passes()
    await passes.report(alert(), alert())
    await passes.report(alert())
    assert passes.saw[-1] == ("f00d",)


@pytest.mark.parametrize(("seconds", "ignored"), [(-1, False), (0, False), (1, True)])
async def test_an_alert_that_is_older_than_what_serves_is_ignored_and_says_so(seconds: int, ignored: bool) -> None:
    passes = Passes()
    since = datetime(2026, 1, 1, 12, 0, 0, 123_000, UTC) + timedelta(seconds=seconds)
    passes.serving = Serving(DIGEST, since)
    found = await passes.report(alert())
    assert [one.fingerprint for one in found] == (["f00d"] if ignored else [])
    assert all("began at 2026-01-01T12:00:00.123000+00:00, before" in one.reason for one in found)


async def test_that_an_alert_is_over_is_taken_however_old_it_is() -> None:
    passes = Passes()
    passes.serving = Serving(DIGEST, datetime(2027, 1, 1, tzinfo=UTC))
    assert await passes.report(alert("resolved")) == ()


async def test_a_resolved_alert_is_taken_away() -> None:
    passes = Passes()
    await passes.report(alert(), alert(fingerprint="beef"))
    assert await passes.report(alert("resolved")) == ()
    assert passes.saw[-1] == ("beef",)


async def test_without_a_pass_that_works_there_is_no_answer() -> None:
    passes = Passes()
    passes.works = False
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await passes.board.report(parse(body(alert())))
    assert passes.saw == [("f00d",)]


async def test_a_pass_that_began_before_the_alert_does_not_count() -> None:
    passes = Passes()
    version, _ = passes.board.firing(KEY)
    passes.works = False
    waiting = asyncio.ensure_future(passes.board.report(parse(body(alert()))))
    await asyncio.sleep(0.01)
    passes.board.passed(KEY, version, Serving(DIGEST))
    await asyncio.sleep(0.01)
    assert not waiting.done()
    passes.works = True
    passes.run(KEY)
    assert await asyncio.wait_for(waiting, 1) == ()


async def test_two_requests_at_the_same_time_are_both_answered() -> None:
    passes = Passes()
    answers = await asyncio.gather(passes.report(alert()), passes.report(alert(fingerprint="beef")))
    assert list(answers) == [(), ()]
    assert set(passes.saw[-1]) == {"f00d", "beef"}


async def test_an_alert_for_what_does_not_serve_is_said_to_be_ignored() -> None:
    passes = Passes(serves=OTHER)
    (ignored,) = await passes.report(alert())
    assert ignored == Ignored("f00d", f"{DIGEST} is not what serves")


async def test_an_alert_for_a_resource_that_is_not_there_is_ignored_and_forgotten() -> None:
    passes = Passes(exists=False)
    (ignored,) = await passes.report(alert())
    assert ignored.reason == "there is no ModelDeployment prod/chat"
    assert passes.board.firing(KEY) == (0, ())


async def test_alerts_that_are_about_nobody_cost_no_pass() -> None:
    passes = Passes(namespaces=("test",))
    ignored = await passes.report(alert(digest=None, fingerprint="a"), alert(fingerprint="b"))
    assert [one.reason for one in ignored] == ["no label digest", "namespace prod is not watched"]
    assert passes.saw == []


async def test_each_resource_sees_its_own_alerts_only() -> None:
    passes = Passes()
    await passes.report(alert(), alert(fingerprint="beef", modeldeployment="other"))
    assert {one.fingerprint for one in passes.board.firing(KEY)[1]} == {"f00d"}
    assert {one.fingerprint for one in passes.board.firing(Key("prod", "other"))[1]} == {"beef"}


async def test_a_flood_of_alerts_keeps_the_latest() -> None:
    passes = Passes()
    await passes.report(*[alert(fingerprint=f"f{number}") for number in range(MAX_FIRING + 10)])
    kept = [one.fingerprint for one in passes.board.firing(KEY)[1]]
    assert (len(kept), kept[-1]) == (MAX_FIRING, f"f{MAX_FIRING + 9}")
