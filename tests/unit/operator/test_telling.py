"""What waits until it can be told, with an API server in memory."""

from datetime import UTC, datetime
from typing import Any

import pytest
from backstay_contract.reasons import Reason
from backstay_contract.status import ModelDeploymentStatus, Notice
from backstay_operator import kinds
from backstay_operator.client import ApiError
from backstay_operator.desired.common import Owner
from backstay_operator.notify import notices
from backstay_operator.rollout.decision import Event
from backstay_operator.telling import MAX_UNTOLD, Teller

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
OWNER = Owner("prod", "chat", "uid-1")


def notice(number: int) -> Notice:
    return notices.of(Event(f"r-{number}.ended", Reason.BREACH, f"said {number}"), ModelDeploymentStatus(), NOON)


def told(api: Any) -> list[str]:
    return sorted(body["note"] for (kind, _, _), body in api.objects.items() if kind is kinds.EVENT)


def allow(api: Any) -> None:
    api.fail = lambda verb, kind, name: None


def refuse(api: Any, status: int) -> None:
    api.fail = lambda verb, kind, name: ApiError(status, "No", "no", "fake") if verb == "create" else None


def teller(api: Any, offered: list[Any] | None = None) -> Teller:
    return Teller(api, "op", (offered if offered is not None else []).append, chance=lambda: 0.0)


@pytest.mark.case("R82")
@pytest.mark.parametrize("status", [0, 403, 429, 500, 503])
async def test_what_could_not_be_told_is_told_by_a_later_pass_in_its_order(api: Any, status: int) -> None:
    offered: list[Any] = []
    one = teller(api, offered)
    refuse(api, status)
    assert await one.tell(OWNER, [notice(1)]) == 0.25
    allow(api)
    assert await one.tell(OWNER, [notice(2)]) is None
    assert told(api) == ["said 1", "said 2"]
    assert [event["note"] for event in offered] == ["said 1", "said 2"]


async def test_a_refusal_that_stays_is_tried_less_and_less_often(api: Any) -> None:
    one = teller(api)
    refuse(api, 403)
    waits = [await one.tell(OWNER, []) if number else await one.tell(OWNER, [notice(1)]) for number in range(10)]
    assert waits == [0.25, 0.5, 1, 2, 4, 8, 16, 30, 30, 30]
    allow(api)
    assert await one.tell(OWNER, []) is None
    refuse(api, 403)
    assert await one.tell(OWNER, [notice(2)]) == 0.25


async def test_a_notice_that_is_not_valid_holds_up_no_other(api: Any) -> None:
    one = teller(api)
    refuse(api, 422)
    assert await one.tell(OWNER, [notice(1)]) is None
    allow(api)
    assert await one.tell(OWNER, [notice(2)]) is None
    assert told(api) == ["said 2"]


async def test_only_so_many_wait_and_the_oldest_are_given_up(api: Any) -> None:
    one = teller(api)
    refuse(api, 500)
    await one.tell(OWNER, [notice(number) for number in range(100, 105 + MAX_UNTOLD)])
    allow(api)
    assert await one.tell(OWNER, []) is None
    assert told(api) == [f"said {number}" for number in range(105, 105 + MAX_UNTOLD)]


async def test_what_is_gone_leaves_nothing_behind(api: Any) -> None:
    one = teller(api)
    refuse(api, 500)
    await one.tell(OWNER, [notice(1)])
    assert one.knows(OWNER)
    one.forget(OWNER.uid)
    assert not one.knows(OWNER)
    allow(api)
    assert await one.tell(OWNER, []) is None
    assert told(api) == []


@pytest.mark.case("R82")
async def test_what_an_operator_before_this_one_told_is_not_even_tried(api: Any) -> None:
    await teller(api).tell(OWNER, [notice(1)])
    one = teller(api)
    assert one.untold(OWNER, (notice(1), notice(2))) == (notice(1), notice(2))
    await one.recall(())
    assert one.untold(OWNER, (notice(1), notice(2))) == (notice(2),)


async def test_what_happens_again_after_its_event_went_is_told_again(api: Any) -> None:
    await teller(api).tell(OWNER, [notice(1)])
    one = teller(api)
    await one.recall(())
    api.objects.clear()
    assert await one.tell(OWNER, [notice(1)]) is None
    assert told(api) == ["said 1"]


async def test_an_operator_that_cannot_look_for_what_was_told_tells_it_and_is_refused(api: Any) -> None:
    await teller(api).tell(OWNER, [notice(1)])
    api.fail = lambda verb, kind, name: ApiError(403, "Forbidden", "no", "fake") if verb == "list" else None
    one = teller(api)
    await one.recall(("prod",))
    assert await one.tell(OWNER, [notice(1)]) is None
    assert told(api) == ["said 1"]
