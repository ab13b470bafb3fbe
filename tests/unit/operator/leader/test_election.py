from datetime import UTC, datetime

import pytest
from backstay_operator.leader import election
from backstay_operator.leader.election import Move, Record, Sighting, Terms, identity, move, sighted
from hypothesis import given
from hypothesis import strategies as st

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
ME, OTHER = identity("op-a", "uid-a", "1"), identity("op-b", "uid-b", "1")
seconds = st.floats(0, 1e6)


def lease(holder: str = OTHER, **fields: object) -> Record:
    return Record(holder, 15.0, version="7", **fields)  # type: ignore[arg-type]


def test_a_lease_that_is_missing_free_or_mine_is_held() -> None:
    for record in (None, lease(""), lease(ME)):
        assert move(ME, Sighting(record, 0.0), 0.0) is Move.HOLD


def test_an_others_lease_is_waited_for_and_taken_when_its_time_is_over() -> None:
    seen = Sighting(lease(), 100.0)
    assert move(ME, seen, 114.9) is Move.WAIT
    assert move(ME, seen, 115.0) is Move.HOLD


def test_the_time_of_a_lease_begins_anew_with_each_write_that_is_seen() -> None:
    first = sighted(None, lease(renewed="1"), 100.0)
    assert sighted(first, lease(renewed="1"), 110.0).since == 100.0
    assert sighted(first, lease(renewed="2"), 110.0).since == 110.0


def test_an_earlier_process_of_the_same_pod_is_dead_and_needs_no_waiting() -> None:
    restarted = identity("op-b", "uid-b", "2")
    assert move(restarted, Sighting(lease(OTHER), 0.0), 0.0) is Move.HOLD


@pytest.mark.parametrize(
    ("pod", "uid"),
    [("op-b", "another-uid"), ("op-b", ""), ("op-c", "uid-b")],
    ids=["a pod of the same name", "outside of a pod", "another pod"],
)
def test_any_other_process_is_waited_for(pod: str, uid: str) -> None:
    holder = identity("op-b", uid and "uid-b", "1")
    assert move(identity(pod, uid, "2"), Sighting(lease(holder), 0.0), 0.0) is Move.WAIT


@given(st.text(), st.text())
def test_two_names_are_of_one_pod_only_if_both_say_so(me: str, holder: str) -> None:
    if election.same_pod(me, holder):
        assert me.split("/")[:2] == holder.split("/")[:2]
        assert me.split("/")[1]


@given(seconds, seconds, seconds)
def test_a_leader_has_ended_before_a_challenger_may_begin(sent: float, on_the_way: float, begins: float) -> None:
    """The renewal was sent at `sent`; the challenger saw it after it was stored, and waits the whole lease."""
    terms = election.terms(15.0)
    seen = sent + on_the_way
    if move(ME, Sighting(lease(), seen), begins) is Move.HOLD:
        assert begins >= terms.ends_at(sent)
        assert terms.acting_until(sent) < terms.ends_at(sent)


@given(st.integers(3, 3600))
def test_terms_leave_room_for_several_renewals_and_a_last_write(lease_seconds: int) -> None:
    terms = election.terms(float(lease_seconds))
    assert 4 * terms.retry < terms.renew < terms.lease - terms.margin < terms.lease
    assert election.held(ME, None, terms, NOON)["leaseDurationSeconds"] >= terms.lease


def test_the_usual_terms_are_those_of_fifteen_seconds() -> None:
    assert election.terms(15.0) == Terms()


def test_a_renewal_keeps_when_it_was_acquired_and_a_takeover_is_counted() -> None:
    first = election.held(ME, None, Terms(), NOON)
    assert (first["leaseTransitions"], first["acquireTime"]) == (0, "2026-01-01T12:00:00.000000Z")
    mine = lease(ME, acquired="then", transitions=3)
    assert election.held(ME, mine, Terms(), NOON)["acquireTime"] == "then"
    assert election.held(ME, mine, Terms(), NOON)["leaseTransitions"] == 3
    taken = election.held(ME, lease(acquired="then", transitions=3), Terms(), NOON)
    assert taken["leaseTransitions"] == 4
    assert taken["acquireTime"] != "then"


def test_what_is_written_is_read_again() -> None:
    spec = election.held(ME, None, Terms(), NOON)
    body = election.created("ops", "backstay", spec)
    body["metadata"]["resourceVersion"] = "7"
    stamp = "2026-01-01T12:00:00.000000Z"
    assert election.read(body) == Record(ME, 15.0, stamp, stamp, 0, "7")
    assert election.read({"metadata": {"resourceVersion": "8"}}).holder == ""
    assert election.patch(lease(), spec)["metadata"] == {"resourceVersion": "7"}
