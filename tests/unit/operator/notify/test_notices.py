from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from backstay_contract.evidence import MetricVerdict, VerdictKind
from backstay_contract.metric import MetricName
from backstay_contract.reasons import Reason
from backstay_contract.status import MAX_NOTICES, Attempt, Colour, ModelDeploymentStatus, Notice, Rejection, Side
from backstay_operator.desired.common import Owner
from backstay_operator.notify import message, notices
from backstay_operator.rollout.decision import Event
from hypothesis import given
from hypothesis import strategies as st

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
DIGEST = "sha256:" + "ab" * 32
OWNER = Owner("prod", "chat", "uid-1")
GONE_BACK = Event("r-2.ended.breach", Reason.BREACH, "p99 is beyond its limit", warning=True)


def verdict(metric: MetricName, kind: VerdictKind, e_value: float | None, **numbers: Any) -> MetricVerdict:
    numbers = {"estimate": 0.4, "limit": 200.0, "n": 50, "k": 20, **numbers}
    return MetricVerdict(metric=metric, verdict=kind, reason="R", message="m", at=NOON, e_value=e_value, **numbers)


def status(*verdicts: MetricVerdict, switched: bool = True) -> ModelDeploymentStatus:
    attempt = Attempt(
        id="r-2",
        revision="r",
        digest=DIGEST,
        version="1.1.0",
        colour=Colour.GREEN,
        image="i",
        started_at=NOON,
        switched_at=NOON if switched else None,
    )
    active = Side(colour=Colour.BLUE, version="1.0.0", digest=DIGEST, revision="before")
    return ModelDeploymentStatus(attempt=attempt, active=active, verdicts=verdicts)


BREACH = verdict(MetricName.P99_LATENCY, VerdictKind.BREACH, 3.5)
FINE = verdict(MetricName.ERROR_RATE, VerdictKind.PASS, -2.0, k=0)


def test_a_notice_has_the_revisions_and_the_numbers_that_decided() -> None:
    one = notices.of(GONE_BACK, status(FINE, BREACH), NOON)
    assert (one.attempt, one.revision, one.version, one.active_revision) == ("r-2", "r", "1.1.0", "before")
    assert one.numbers is not None
    numbers = one.numbers
    assert (numbers.metric, numbers.observed, numbers.limit) == (MetricName.P99_LATENCY, 0.4, 200.0)
    assert (numbers.n, numbers.k, numbers.e_value) == (50, 20, 3.5)


def test_a_breach_counts_before_a_metric_with_more_evidence() -> None:
    inconclusive = verdict(MetricName.ERROR_RATE, VerdictKind.INCONCLUSIVE, 9.0)
    one = notices.of(GONE_BACK, status(inconclusive, BREACH), NOON)
    assert one.numbers is not None
    assert one.numbers.metric is MetricName.P99_LATENCY


UNLIMITED = verdict(MetricName.TTFT_P99, VerdictKind.NO_DATA, None, limit=None)


@pytest.mark.parametrize(
    "of",
    [ModelDeploymentStatus(), status(), status(BREACH, switched=False), status(UNLIMITED)],
    ids=["nothing yet", "nothing judged", "an older attempt's verdicts", "no limit"],
)
def test_numbers_that_do_not_belong_to_it_are_left_out(of: ModelDeploymentStatus) -> None:
    assert notices.of(GONE_BACK, of, NOON).numbers is None


def test_a_rejection_before_the_flip_has_the_numbers_that_it_rests_on() -> None:
    rejection = Rejection(
        digest=DIGEST,
        revision="r",
        version="1.1.0",
        attempt="r-2",
        reason="EvaluationFailed",
        metric=MetricName.PERPLEXITY,
        observed=19.2,
        limit=15.6,
        at=NOON,
    )
    one = notices.of(GONE_BACK, status(switched=False).with_(rejected=(rejection,)), NOON)
    assert one.numbers is not None
    assert (one.numbers.metric, one.numbers.observed, one.numbers.limit) == (MetricName.PERPLEXITY, 19.2, 15.6)
    older = rejection.with_(attempt="r-1")
    assert notices.of(GONE_BACK, status(switched=False).with_(rejected=(older,)), NOON).numbers is None


def notice(number: int, at: datetime = NOON) -> Notice:
    return Notice(id=f"r-{number}", reason="Breach", at=at)


@given(st.integers(0, 9), st.integers(0, 9))
def test_the_status_remembers_the_latest_in_order(before: int, new: int) -> None:
    old = tuple(notice(number) for number in range(min(before, MAX_NOTICES)))
    added = tuple(notice(100 + number) for number in range(new))
    kept = notices.recorded(old, added)
    assert len(kept) <= MAX_NOTICES
    assert kept == (*old, *added)[-MAX_NOTICES:]
    assert ModelDeploymentStatus().with_(notices=kept).notices == kept


def test_only_what_happened_lately_is_told_again() -> None:
    old, new = notice(1, NOON - timedelta(minutes=11)), notice(2, NOON - timedelta(minutes=9))
    assert notices.lately((old, new), NOON) == (new,)


def test_a_long_message_is_cut_visibly() -> None:
    one = notices.of(Event("x", Reason.BREACH, "é" * 2000), ModelDeploymentStatus(), NOON)
    assert (len(one.message), one.message[-1]) == (1024, "…")


def test_the_id_is_the_same_for_every_operator_and_another_for_each_resource_and_transition() -> None:
    other = Owner("prod", "chat", "uid-2")
    ids = {message.unique(owner, of) for owner in (OWNER, other) for of in ("r-1.ended", "r-2.ended")}
    assert len(ids) == 4
    assert message.unique(OWNER, "r-1.ended") == message.unique(Owner("prod", "chat", "uid-1"), "r-1.ended")


def test_the_data_names_the_resource_and_holds_every_number() -> None:
    data = message.data(OWNER, notices.of(GONE_BACK, status(BREACH), NOON))
    assert {key: data[key] for key in ("namespace", "name", "uid", "reason", "transition", "warning")} == {
        "namespace": "prod",
        "name": "chat",
        "uid": "uid-1",
        "reason": "Breach",
        "transition": "r-2.ended.breach",
        "warning": True,
    }
    assert (data["metric"], data["observed"], data["limit"], data["eValue"]) == ("p99LatencyMs", 0.4, 200.0, 3.5)
    assert (data["n"], data["k"], data["revision"], data["activeRevision"]) == (50, 20, "r", "before")
    assert "numbers" not in data
