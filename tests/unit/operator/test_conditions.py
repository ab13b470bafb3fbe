from datetime import UTC, datetime, timedelta

import pytest
from backstay_contract.reasons import Reason
from backstay_contract.status import Condition
from backstay_operator.conditions import Wanted, build
from hypothesis import given
from hypothesis import strategies as st

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
LATER = NOON + timedelta(minutes=5)

wants = st.builds(
    Wanted,
    type=st.sampled_from(["Ready", "Progressing", "Verified"]),
    status=st.sampled_from(["True", "False", "Unknown"]),
    reason=st.sampled_from(list(Reason)),
    message=st.text(max_size=10),
)


def ready(status: str, reason: Reason = Reason.READY, message: str = "") -> Wanted:
    return Wanted("Ready", status, reason, message)  # type: ignore[arg-type]


def test_a_new_condition_begins_now() -> None:
    (condition,) = build((), [ready("True")], generation=3, now=NOON)
    assert condition == Condition(
        type="Ready", status="True", reason="Ready", last_transition_time=NOON, observed_generation=3
    )


def test_the_time_stays_while_the_status_stays_even_with_another_reason() -> None:
    first = build((), [ready("False", Reason.STARTING)], generation=1, now=NOON)
    (condition,) = build(first, [ready("False", Reason.CRASH_LOOP, "exit code 1")], generation=2, now=LATER)
    assert condition.last_transition_time == NOON
    assert (condition.reason, condition.message, condition.observed_generation) == ("CrashLoop", "exit code 1", 2)


def test_the_time_moves_when_the_status_does() -> None:
    first = build((), [ready("False", Reason.NOT_READY)], generation=1, now=NOON)
    (condition,) = build(first, [ready("True")], generation=1, now=LATER)
    assert condition.last_transition_time == LATER


def test_a_condition_that_is_not_wanted_any_more_vanishes() -> None:
    first = build((), [ready("True"), Wanted("SpecValid", "False", Reason.SPEC_INVALID)], generation=1, now=NOON)
    assert [c.type for c in build(first, [ready("True")], generation=1, now=LATER)] == ["Ready"]


def test_a_type_wanted_twice_is_a_defect() -> None:
    with pytest.raises(ValueError, match="Ready: wanted twice"):
        build((), [ready("True"), ready("False")], generation=1, now=NOON)


@given(st.lists(wants, unique_by=lambda want: want.type))
def test_saying_the_same_again_changes_nothing(wanted: list[Wanted]) -> None:
    first = build((), wanted, generation=1, now=NOON)
    assert build(first, wanted, generation=1, now=LATER) == first


@given(st.lists(wants, unique_by=lambda want: want.type), st.lists(wants, unique_by=lambda want: want.type))
def test_the_order_is_the_wanted_one_and_no_time_is_invented(first: list[Wanted], second: list[Wanted]) -> None:
    built = build(build((), first, generation=1, now=NOON), second, generation=2, now=LATER)
    assert [c.type for c in built] == [want.type for want in second]
    assert {c.last_transition_time for c in built} <= {NOON, LATER}
