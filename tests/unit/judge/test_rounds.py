"""Rounds over the evaluation set, read from metrics and judged over several pods."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from backstay_contract.evidence import EvidenceSource, MetricVerdict, VerdictKind
from backstay_contract.metric import MetricName
from backstay_contract.names import RuntimeMetric
from backstay_judge import (
    Coverage,
    Difference,
    Refusal,
    Round,
    Sample,
    Settings,
    judge,
    judge_rounds,
    read_rounds,
)
from backstay_judge.rounds import ROUND_SERIES, PodRound
from hypothesis import given
from hypothesis import strategies as st

from .build import DIGEST, ERRORS, FLIP, OTHER_DIGEST, P99, at, evidence_of, full_coverage

PASS, BREACH, NO_DATA = VerdictKind.PASS, VerdictKind.BREACH, VerdictKind.NO_DATA
INCONCLUSIVE, POD_OUTLIER = VerdictKind.INCONCLUSIVE, VerdictKind.POD_OUTLIER
PERPLEXITY = MetricName.PERPLEXITY
RECORDED, LIMIT = 20.0, 22.0
GOOD = Round(12, 0, RECORDED, Difference(0.01, 0.005, 11))
BAD = Round(12, 0, RECORDED, Difference(0.6, 0.02, 11))
UNSURE = Round(12, 0, RECORDED, Difference(math.log(1.1), 0.02, 11))
BROKEN = Round(12, 3, RECORDED, None)
SINGLE = Round(1, 0, RECORDED, None)
UNREAD = Refusal("SampleStale", "the sample is 11 s old")  # type: ignore[arg-type]


def samples(pod: str, found: Round, *, rounds: float = 1, seconds: float = 0, digest: str = DIGEST) -> list[Sample]:
    """A pod's series as the runtime exports them."""
    excess = found.excess or Difference(0.0, 0.0, 0)
    values = (found.items, found.broken, found.recorded, excess.mean, excess.error, excess.degrees)
    labels, time = {"pod": pod, "digest": digest}, at(seconds).timestamp()
    told = [Sample(name, labels, value, time) for name, value in zip(ROUND_SERIES, values, strict=True)]
    return [*told, Sample(RuntimeMetric.EVALUATION_ROUNDS, labels, rounds, time), Sample("up", {"pod": pod}, 1, time)]


def read(found: list[Sample], seconds: float = 0) -> dict[str, PodRound]:
    return read_rounds(found, digest=DIGEST, now=at(seconds), max_age_seconds=10)


def of(**rounds: PodRound) -> MetricVerdict:
    return judge_rounds(rounds, frozenset(rounds), limit=LIMIT, now=FLIP, settings=Settings())


# --- reading ------------------------------------------------------------------------------------------------------

finite = st.floats(-50, 50)
rounds = st.builds(
    Round,
    st.integers(2, 500),
    st.just(0),
    st.floats(1, 1e6),
    st.builds(Difference, finite, st.floats(0, 10), st.integers(1, 499)),
)


@given(rounds, st.integers(1, 10_000))
def test_a_round_comes_back_as_the_runtime_told_it(found: Round, count: int) -> None:
    assert read(samples("a", found, rounds=count)) == {"a": found}


@pytest.mark.parametrize("found", [BROKEN, SINGLE])
def test_a_round_that_has_no_difference_is_read_without_one(found: Round) -> None:
    assert read(samples("a", found)) == {"a": found}


def test_before_the_first_round_is_over_there_is_none() -> None:
    assert read(samples("a", GOOD, rounds=0)) == {"a": None}


def test_another_digests_rounds_never_speak_for_this_one() -> None:
    assert isinstance(read(samples("a", GOOD, digest=OTHER_DIGEST))["a"], Refusal)


Change = Callable[[list[Sample]], list[Sample]]
EACH = (*ROUND_SERIES, RuntimeMetric.EVALUATION_ROUNDS)


def every(value: Any) -> list[Change]:
    """Changes that give one of the series a value, each in turn."""

    def change(name: str) -> Change:
        return lambda found: [replace(one, value=value) if one.name == name else one for one in found]

    return [change(name) for name in EACH]


def each_missing() -> list[Change]:
    def change(name: str) -> Change:
        return lambda found: [one for one in found if one.name != name]

    return [change(name) for name in EACH]


SPOILT = {
    "NaN": every(math.nan),
    "+Inf": every(math.inf),
    "-Inf": every(-math.inf),
    "text": every("1"),
    "null": every(None),
    "missing": each_missing(),
    "stale": [lambda found: [replace(one, timestamp=one.timestamp - 11) for one in found]],
    "from the future": [lambda found: [replace(one, timestamp=one.timestamp + 11) for one in found]],
    "twice": [lambda found: [*found, replace(found[0], labels={**found[0].labels, "job": "again"})]],
    "down": [lambda found: [replace(one, value=0.0) if one.name == "up" else one for one in found]],
}


@pytest.mark.case("T41")
@pytest.mark.parametrize("what", SPOILT)
@pytest.mark.parametrize("found", [GOOD, BAD], ids=["would pass", "would breach"])
def test_a_value_that_is_none_is_no_round_and_decides_nothing(what: str, found: Round) -> None:
    for change in SPOILT[what]:
        got = read([*samples("a", found), *change(samples("b", found))])
        assert got["a"] == found
        assert isinstance(got["b"], Refusal)
        assert of(**got).verdict is NO_DATA


# --- judging several pods -----------------------------------------------------------------------------------------


def test_all_pods_within_the_limit_pass_with_the_worst_ones_numbers() -> None:
    worse = replace(GOOD, excess=Difference(0.02, 0.005, 11))
    found = of(a=GOOD, b=worse, c=GOOD)
    assert (found.verdict, found.pods, found.n) == (PASS, 3, 12)
    assert found.estimate == pytest.approx(RECORDED * math.exp(0.02))


def test_a_spike_on_every_pod_is_a_breach() -> None:
    found = of(a=BAD, b=BAD)
    assert (found.verdict, found.reason, found.limit) == (BREACH, "BeyondLimit", LIMIT)
    assert found.estimate == pytest.approx(RECORDED * math.exp(0.6))


@pytest.mark.parametrize("bad", [BAD, BROKEN])
def test_a_spike_on_the_only_pod_is_a_breach(bad: Round) -> None:
    assert of(a=bad).verdict is BREACH


def test_one_bad_pod_of_several_is_named_and_is_no_breach() -> None:
    found = of(a=GOOD, b=BAD, c=GOOD)
    assert (found.verdict, found.pod) == (POD_OUTLIER, "b")
    assert "without b the other pods do not show it" in found.message


def test_two_bad_pods_are_a_breach_whatever_is_known_of_the_others() -> None:
    assert of(a=BAD, b=BAD, c=None, d=UNREAD).verdict is BREACH


def test_one_bad_pod_waits_for_the_others_first_round() -> None:
    assert (of(a=BAD, b=None).verdict, of(a=BAD, b=None).reason) == (INCONCLUSIVE, "AwaitingEvaluation")


def test_a_pod_that_cannot_be_read_is_no_data_with_its_reason() -> None:
    found = of(a=GOOD, b=UNREAD)
    assert (found.verdict, found.reason) == (NO_DATA, "SampleStale")
    assert "1 of 2 ready pods" in found.message


def test_a_ready_pod_that_nobody_scraped_is_no_data() -> None:
    found = judge_rounds({"a": GOOD}, frozenset("ab"), limit=LIMIT, now=FLIP, settings=Settings())
    assert (found.verdict, found.reason) == (NO_DATA, "PodNotScraped")


def test_without_a_ready_pod_there_is_no_data() -> None:
    assert judge_rounds({"a": GOOD}, frozenset(), limit=LIMIT, now=FLIP, settings=Settings()).verdict is NO_DATA


def test_an_undecided_pod_keeps_the_others_from_passing() -> None:
    assert of(a=GOOD, b=UNSURE).verdict is INCONCLUSIVE
    assert of(a=SINGLE).verdict is INCONCLUSIVE


pod_rounds = st.sampled_from([GOOD, BAD, UNSURE, BROKEN, None, UNREAD])


@given(st.dictionaries(st.sampled_from("abcdef"), pod_rounds, min_size=1))
def test_a_pass_needs_every_pod_and_a_breach_all_of_them_or_two(found: dict[str, PodRound]) -> None:
    verdict = of(**found).verdict
    bad = [pod for pod, one in found.items() if one in (BAD, BROKEN)]
    assert (verdict is PASS) == all(one is GOOD for one in found.values())
    assert (verdict is BREACH) == (len(bad) >= min(2, len(found)))


# --- beside the other metrics -------------------------------------------------------------------------------------


def test_perplexity_has_its_share_of_alpha_and_its_breach_is_the_attempts() -> None:
    evidence = evidence_of([{"a": (500, 0)}] * 2)
    limits = {P99: 840.0, ERRORS.metric: None, PERPLEXITY: LIMIT}
    alone = judge({P99: 840.0}, [evidence], full_coverage(evidence), at(2), Settings())
    coverage = replace(full_coverage(evidence), rounds={"a": BAD})
    found = judge(limits, [evidence], coverage, at(2), Settings())
    assert (found.verdict, found.reason) == (BREACH, "BeyondLimit")
    assert found.message.startswith("perplexity: ")
    needed = [one.breach_at or 0.0 for one in (alone.metrics[0], found.metrics[0])]
    assert needed[1] - needed[0] == pytest.approx(math.log10(2))


def test_perplexity_alone_passes_an_attempt() -> None:
    coverage = Coverage(ready=frozenset("a"), rounds={"a": GOOD}, source=EvidenceSource.PODS, query="GET /metrics")
    found = judge({PERPLEXITY: LIMIT}, [], coverage, at(2), Settings())
    assert (found.verdict, found.message) == (PASS, "within the limits: perplexity")
    assert (found.metrics[0].source, found.metrics[0].query) == (EvidenceSource.PODS, "GET /metrics")


@pytest.mark.parametrize("found", [GOOD, BAD], ids=["would pass", "would breach"])
def test_a_source_that_does_not_answer_says_nothing_of_perplexity(found: Round) -> None:
    coverage = Coverage(ready=frozenset("a"), rounds={"a": found}, unavailable="401 Unauthorized")
    got = judge({PERPLEXITY: LIMIT}, [], coverage, at(2), Settings())
    assert (got.verdict, got.reason) == (NO_DATA, "SourceUnavailable")


def test_without_an_evaluation_perplexity_is_skipped_and_says_so() -> None:
    evidence = evidence_of([{"a": (500, 0)}] * 2)
    found = judge({P99: 840.0, PERPLEXITY: None}, [evidence], full_coverage(evidence), at(2), Settings())
    assert found.verdict is PASS
    assert (found.metrics[1].verdict, found.metrics[1].reason) == (VerdictKind.SKIPPED, "NotEvaluated")
    assert "no evaluation set" in found.metrics[1].message
