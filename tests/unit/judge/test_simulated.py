"""Whole soaks through `add` and `judge`: what a good model risks and how soon a bad one is found."""

import math
import random
from statistics import NormalDist, median

import pytest
from backstay_contract.evidence import AttemptVerdict, VerdictKind
from backstay_judge import Coverage, Settings, add, begin, judge, limit_on_requests
from hypothesis import given, settings
from hypothesis import strategies as st

from .build import FLIP, INTERVAL, P99, at, reading

SIGMA = 0.8
BASELINE_P99 = math.exp(NormalDist().inv_cdf(0.99) * SIGMA)
LIMIT = limit_on_requests(P99, 2 * BASELINE_P99)
WINDOWS = 20


def soak(rng: random.Random, factor: float, *, shared: float = 0.0, requests: int = 30) -> tuple[VerdictKind, int]:
    """Two pods serve log-normal latencies, `factor` times the baseline's, of which a window shares `shared` of the
    variance. The last verdict and its window; a Breach ends the soak."""
    totals = {"a": [0, 0], "b": [0, 0]}
    evidence = begin([LIMIT], [reading(pod, 0, limit=LIMIT) for pod in totals], FLIP)
    for second in range(1, WINDOWS + 1):
        load = math.sqrt(shared) * rng.gauss(0, 1)
        for _ in range(requests):
            latency = factor * math.exp(SIGMA * (load + math.sqrt(1 - shared) * rng.gauss(0, 1)))
            count = totals[rng.choice("ab")]
            count[0] += 1
            count[1] += latency > LIMIT.value
        readings = [reading(pod, n, k, seconds=second, limit=LIMIT) for pod, (n, k) in totals.items()]
        evidence = add(evidence, readings, at(second), INTERVAL)
        coverage = Coverage(ready=frozenset(totals), readings=readings)
        verdict = judge({P99: LIMIT.value}, evidence, coverage, at(second), Settings()).verdict
        if verdict is VerdictKind.BREACH:
            break
    return verdict, second


@pytest.mark.parametrize("shared", [0.0, 0.3])
def test_a_model_at_one_and_a_half_times_its_baseline_is_not_sent_back_where_twice_is_allowed(shared: float) -> None:
    # In 3,000 soaks none was. A single window beyond the limit, the naive rival, sends back 70 % of these.
    rng = random.Random(f"allowed {shared}")
    assert [soak(rng, 1.5, shared=shared)[0] for _ in range(200)].count(VerdictKind.BREACH) == 0


@pytest.mark.parametrize("shared", [0.0, 0.3])
def test_a_model_exactly_at_its_limit_is_rarely_sent_back(shared: float) -> None:
    # 250 soaks at alpha 0.1 % (2 of 3,000 were sent back with shared load). At 0.1 % more than 3 would be found with
    # probability 1e-4.
    rng = random.Random(f"at the limit {shared}")
    assert [soak(rng, 2.0, shared=shared)[0] for _ in range(250)].count(VerdictKind.BREACH) <= 3


@pytest.mark.parametrize(
    ("factor", "shared", "windows"), [(1000.0, 0.0, 2), (10.0, 0.0, 2), (6.0, 0.0, 2), (10.0, 0.3, 4), (6.0, 0.3, 6)]
)
def test_a_bad_model_is_found_in_every_soak_and_soon(factor: float, shared: float, windows: int) -> None:
    rng = random.Random(f"bad {factor} {shared}")
    found = [soak(rng, factor, shared=shared) for _ in range(100)]
    assert {verdict for verdict, _ in found} == {VerdictKind.BREACH}
    assert median(second for _, second in found) <= windows


def test_a_model_that_serves_too_little_is_inconclusive_and_not_passed() -> None:
    rng = random.Random("little traffic")
    verdicts = [soak(rng, 0.5, requests=5)[0] for _ in range(20)]
    assert set(verdicts) == {VerdictKind.INCONCLUSIVE}


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=8, max_size=48), st.sampled_from([1, 2, 4]))
@settings(deadline=None, max_examples=60)
def test_looking_more_often_than_windows_close_gives_the_same_verdict(
    steps: list[tuple[int, int]], looks_per_window: int
) -> None:
    def verdict(looks: int) -> AttemptVerdict:
        n = k = 0
        evidence = begin([LIMIT], [reading("a", 0, limit=LIMIT)], FLIP)
        for index, (more, slow) in enumerate(steps[: len(steps) // 4 * 4], start=1):
            n, k = n + more, k + min(more, slow)
            if index % (4 // looks) == 0:
                readings = [reading("a", n, k, seconds=index / 4, limit=LIMIT)]
                evidence = add(evidence, readings, at(index / 4), INTERVAL)
        coverage = Coverage(ready=frozenset("a"), readings=readings)
        return judge({P99: LIMIT.value}, evidence, coverage, at(60), Settings())

    assert verdict(1) == verdict(looks_per_window)
