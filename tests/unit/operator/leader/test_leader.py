"""Claims on one Lease, with a clock that the test moves and an API server in memory that may fail or dawdle."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest
from backstay_operator import kinds
from backstay_operator.client import ApiError
from backstay_operator.leader import election
from backstay_operator.leader.leader import Leader
from hypothesis import given
from hypothesis import strategies as st

LEASE = (kinds.LEASE, "ops", "backstay")
DOWN = ApiError(0, "Unreachable", "connection refused", "fake")


class Claims:
    """Leaders of one Lease and their common clock."""

    def __init__(self, api: Any, count: int = 2, lease_seconds: float = 15.0) -> None:
        self.now = 1000.0
        self.api = api
        self.leaders = [self.another(number, lease_seconds) for number in range(count)]

    def another(self, number: int, lease_seconds: float = 15.0) -> Leader:
        who = election.identity(f"op-{number}", f"uid-{number}", "1")
        return Leader(self.api, "ops", "backstay", who, election.terms(lease_seconds), lambda: self.now)

    @property
    def acting(self) -> list[int]:
        return [number for number, leader in enumerate(self.leaders) if leader.leave() > 0]


@pytest.fixture
def claims(api: Any) -> Claims:
    return Claims(api)


async def test_the_first_one_leads_and_the_second_stands_by(claims: Claims) -> None:
    first, second = claims.leaders
    assert await first.step() is True
    assert await second.step() is False
    assert claims.acting == [0]
    assert claims.api.objects[LEASE]["spec"]["holderIdentity"].startswith("op-0/")


async def test_a_renewal_is_one_write_and_no_read(claims: Claims) -> None:
    first, _ = claims.leaders
    await first.step()
    claims.api.fail = lambda verb, *_: DOWN if verb == "get" else None
    claims.now += 2
    assert await first.step() is True
    assert first.leave() == 14.0


async def test_one_that_cannot_renew_stops_before_another_begins(claims: Claims) -> None:
    first, second = claims.leaders
    await first.step()
    await second.step()
    claims.now += 9.9
    assert claims.acting == [0]
    claims.now += 0.2
    assert claims.acting == []
    assert await second.step() is False
    claims.now += 4.9
    assert await second.step() is True
    assert claims.acting == [1]


async def test_a_write_under_way_has_to_end_before_the_lease_does(claims: Claims) -> None:
    first, _ = claims.leaders
    await first.step()
    assert first.leave() == 14.0
    claims.now += 9.5
    assert first.leave() == 4.5


async def test_one_that_was_replaced_knows_it_at_the_next_look(claims: Claims) -> None:
    first, second = claims.leaders
    await first.step()
    await second.step()
    claims.now += 16
    await second.step()
    assert await first.step() is False
    assert claims.acting == [1]


async def test_a_lease_that_is_given_back_is_taken_at_once(claims: Claims) -> None:
    first, second = claims.leaders
    await first.step()
    await second.step()
    await first.release()
    assert claims.acting == []
    assert await second.step() is True


async def test_one_that_does_not_lead_gives_nothing_back(claims: Claims) -> None:
    first, second = claims.leaders
    await first.step()
    await second.step()
    await second.release()
    assert claims.api.objects[LEASE]["spec"]["holderIdentity"].startswith("op-0/")


async def test_a_lease_that_somebody_deletes_is_made_again(claims: Claims) -> None:
    first, _ = claims.leaders
    await first.step()
    del claims.api.objects[LEASE]
    claims.now += 2
    assert await first.step() is True
    assert LEASE in claims.api.objects


async def test_an_api_server_that_is_away_is_said_once_and_tried_again(
    claims: Claims, caplog: pytest.LogCaptureFixture
) -> None:
    first, _ = claims.leaders
    claims.api.fail = lambda *_: DOWN
    with caplog.at_level(logging.WARNING):
        assert await first.step() is False
        assert await first.step() is False
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    claims.api.fail = lambda *_: None
    assert await first.step() is True


async def test_keeping_ends_when_the_lease_is_lost(api: Any) -> None:
    """In real time, with a short lease: a call that hangs for ever must not keep the leader from seeing it."""
    claims = Claims(api, count=1)
    leader = Leader(api, "ops", "backstay", "me", election.terms(0.3))
    await asyncio.wait_for(leader.acquire(), 5)
    hang: Callable[..., Any] = lambda *_, **__: asyncio.Event().wait()  # noqa: E731
    claims.api.merge_patch = hang
    await asyncio.wait_for(leader.keep(), 5)
    assert leader.leave() == 0.0


class SlowApi:
    """Calls take time before and after they are carried out, fail, and let others in between."""

    def __init__(self, api: Any, script: list[tuple[float, float, str]]) -> None:
        self.api = api
        self.script = script
        self.claims: Claims | None = None
        self.depth = 0

    async def _through(self, call: Callable[[], Any]) -> Any:
        assert self.claims is not None
        before, after, what = self.script.pop() if self.script else (0.0, 0.0, "")
        self.claims.now += before
        if what.startswith("other") and self.depth == 0:
            self.depth += 1
            await self.claims.leaders[int(what[-1])].step()
            self.depth -= 1
        if what == "refused":
            raise DOWN
        answer = await call()
        assert len(self.claims.acting) <= 1
        self.claims.now += after
        if what == "lost":
            raise DOWN
        return answer

    async def get(self, *given: Any) -> Any:
        return await self._through(lambda: self.api.get(*given))

    async def create(self, *given: Any) -> Any:
        return await self._through(lambda: self.api.create(*given))

    async def merge_patch(self, *given: Any) -> Any:
        return await self._through(lambda: self.api.merge_patch(*given))


waits = st.sampled_from([0.0, 0.1, 1.0, 4.0, 9.0, 16.0])
calls = st.tuples(waits, waits, st.sampled_from(["", "", "refused", "lost", "other-0", "other-1", "other-2"]))
turns = st.tuples(st.sampled_from(["step", "step", "step", "release", "restart"]), st.integers(0, 2), waits)


@given(st.lists(turns, max_size=25), st.lists(calls, max_size=40))
def test_there_are_never_two_leaders_whatever_is_slow_lost_or_restarted(
    script: list[tuple[str, int, float]], slow: list[tuple[float, float, str]]
) -> None:
    from tests.unit.operator.conftest import FakeApi

    api = SlowApi(FakeApi(), slow)
    claims = Claims(api, count=3)
    api.claims = claims

    async def story() -> None:
        for what, number, wait in script:
            claims.now += wait
            if what == "restart":
                claims.leaders[number] = claims.another(number + 10 * int(claims.now))
            elif what == "release":
                await claims.leaders[number].release()
            else:
                await claims.leaders[number].step()
            assert len(claims.acting) <= 1

    asyncio.run(story())
