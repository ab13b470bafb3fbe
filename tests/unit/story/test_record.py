"""One story from many sights: a better version that stays, a worse one that goes back."""

import pytest

from tests.e2e.story import record
from tests.e2e.story.answers import Answer
from tests.e2e.story.history import Seen
from tests.unit.story.build import HEX_NEW, NEW, OLD, answer, attempt, refused, resource, service, steady

BREACH = {"metric": "p99LatencyMs", "verdict": "Breach", "at": "1970-01-01T00:01:10+00:00"}
SERVICES = [service(0, "none"), service(12, "blue"), service(40, "green"), service(70.5, "blue")]
RESOURCES = [
    resource(0, "Starting", attempt=attempt("1", "blue")),
    resource(10, "Checking", attempt=attempt("1", "blue")),
    resource(15, "Serving", attempt=attempt("1", "blue", ended=True, outcome="NoBaselines")),
    resource(31, "Starting", attempt=attempt("2", "green")),
    resource(39, "Checking", attempt=attempt("2", "green")),
    resource(41, "Soaking", attempt=attempt("2", "green")),
    resource(70.6, "RollingBack", attempt=attempt("2", "green", ended=True, outcome="Breach"), verdicts=[BREACH]),
    resource(72, "Serving", attempt=attempt("2", "green", ended=True, outcome="Breach"), verdicts=[BREACH]),
]


def told(version: str, digest: str, asked_at: float, resources: list[Seen] = RESOURCES) -> record.Rollout:
    return record.rollout(resources, SERVICES, [], version=version, digest=digest, size=1, asked_at=asked_at)


def test_a_version_that_stays_has_no_way_back() -> None:
    one = told("1", OLD, 0)
    assert (one.ready_at, one.flip_at, one.ended_at, one.outcome) == (10, 12, 15, "NoBaselines")
    assert one.back_at is None


def test_a_version_that_breached_has_the_times_of_its_breach_and_of_the_way_back() -> None:
    one = told("2", NEW, 30)
    assert (one.ready_at, one.flip_at, one.back_at, one.outcome) == (39, 40, 70.5, "Breach")
    assert one.breach_at == pytest.approx(70)


def test_what_was_not_seen_has_no_time() -> None:
    one = told("3", NEW, 30)
    assert (one.ready_at, one.flip_at, one.ended_at, one.outcome, one.back_at) == (None,) * 5


def test_the_moves_between_versions_come_in_the_order_of_time() -> None:
    found = record.moves([told("1", OLD, 0), told("2", NEW, 30)])
    assert found == [("1→2", NEW, OLD, 40), ("2→1", OLD, NEW, 70.5)]


def test_a_pod_is_known_by_the_digest_that_it_serves() -> None:
    assert record.digest_of({"metadata": {"annotations": {"backstay.dev/digest": NEW}}}) == HEX_NEW
    assert record.digest_of({"metadata": {}}) == ""


def test_the_baseline_counts_only_good_answers_that_ended_in_time() -> None:
    found = [*steady(0, 100), answer(50, ms=9_000, status=500), answer(99.99, ms=60_000), refused(20)]
    measured = record.baseline(found, 10, 100)
    assert measured.samples == 90
    assert measured.p99_ms == measured.median_ms == 100
    assert measured.busy == pytest.approx(0.1)


MOVES = [("1→2", NEW, OLD, 40.0), ("2→1", OLD, NEW, 70.0)]


def traffic(found: list[Answer], until: float = 100) -> record.Traffic:
    return record.traffic(found, "new", until=until, excused=NEW, moves=MOVES)


def test_traffic_without_a_loss_has_none_and_moves_at_once() -> None:
    found = [*steady(0, 40), *steady(40, 70, digest=NEW), *steady(70, 100)]
    whole = [answer(one.sent, one.ms, number=number, digest=one.digest) for number, one in enumerate(found)]
    one = traffic(whole)
    assert (one.sent, one.lost, one.own_errors, one.missing_lines) == (100, (), 0, 0)
    assert one.moved_s == {"1→2": 0, "2→1": 0}


def test_a_request_that_no_line_tells_of_is_missed() -> None:
    whole = [one for one in steady(0, 40) if one.number != 17]
    assert traffic(whole).missing_lines == 1


def test_requests_on_the_bad_side_after_the_way_back_count_until_the_last() -> None:
    whole = [*steady(0, 40), *steady(40, 78, digest=NEW), *steady(78, 100)]
    assert traffic(whole).moved_s["2→1"] == pytest.approx(7)


def test_what_was_sent_too_late_to_be_answered_is_left_out() -> None:
    assert traffic(steady(0, 50), until=30).sent == 30
