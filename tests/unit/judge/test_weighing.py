"""What evidence weighs: which e-value counts, how alpha is shared, and whose evidence it is."""

import math

import pytest
from backstay_contract.evidence import MetricEvidence
from backstay_judge import Settings, betting, log_e_beyond, log_e_within
from backstay_judge.weighing import lone_culprit, pods_with_requests, weigh
from hypothesis import given
from hypothesis import strategies as st

from .build import evidence_of

Counts = dict[str, tuple[int, int]]
counts_of_pods = st.dictionaries(
    st.sampled_from("abcdef"),
    st.integers(1, 60).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))),
    min_size=2,
)


def of_pods(counts: Counts) -> MetricEvidence:
    return evidence_of([counts])


@pytest.mark.parametrize("metrics", [1, 2, 5])
def test_each_judged_metric_gets_its_share_of_alpha(metrics: int) -> None:
    weight = weigh(of_pods({"a": (10, 1)}), metrics, Settings(alpha=0.002))
    assert weight.breach_at == pytest.approx(math.log(metrics / 0.002))


@pytest.mark.parametrize("metrics", [1, 5])
def test_the_odds_of_a_pass_are_each_metrics_own(metrics: int) -> None:
    weight = weigh(of_pods({"a": (10, 1)}), metrics, Settings(alpha_pass=0.02))
    assert weight.pass_at == pytest.approx(math.log(50))


def test_independent_requests_are_weighed_one_by_one() -> None:
    found = evidence_of([{"a": (30, 3)}, {"a": (30, 4)}, {"a": (30, 2)}])
    weight = weigh(found, 1, Settings())
    assert not weight.overdispersed
    assert weight.beyond == log_e_beyond(90, 9, 0.01)
    assert weight.within == log_e_within(90, 9, 0.01)


def test_requests_that_share_their_load_are_weighed_window_by_window() -> None:
    found = evidence_of([{"a": (30, 0)}, {"a": (30, 15)}, {"a": (30, 0)}])
    weight = weigh(found, 1, Settings())
    assert weight.overdispersed
    assert weight.beyond == betting.log_e(found.windows.log_wealth)
    assert weight.within == log_e_within(90, 15, 0.01) / weight.dispersion


def test_how_much_sharing_is_too_much_can_be_set() -> None:
    found = evidence_of([{"a": (30, 0)}, {"a": (30, 15)}, {"a": (30, 0)}])
    assert not weigh(found, 1, Settings(dispersion_limit=100.0)).overdispersed


def test_one_window_says_nothing_about_sharing() -> None:
    weight = weigh(evidence_of([{"a": (30, 15)}]), 1, Settings())
    assert (weight.dispersion, weight.overdispersed) == (1.0, False)


@given(counts_of_pods)
def test_without_a_culprit_the_others_show_the_breach_whichever_pod_is_left_out(counts: Counts) -> None:
    found, need = of_pods(counts), math.log(20)
    n, k = found.n, found.k
    rests = {pod: log_e_beyond(n - mine, k - slow, 0.01) for pod, (mine, slow) in counts.items()}
    culprit = lone_culprit(found, Settings(alpha_rest=0.05))
    if culprit is None:
        assert min(rests.values()) >= need
    else:
        assert rests[culprit.pod] == min(rests.values()) < need


@given(counts_of_pods, st.permutations("abcdef"))
def test_the_names_of_the_pods_do_not_decide_whether_there_is_a_culprit(counts: Counts, names: list[str]) -> None:
    renamed = {names["abcdef".index(pod)]: found for pod, found in counts.items()}
    assert (lone_culprit(of_pods(counts), Settings()) is None) == (lone_culprit(of_pods(renamed), Settings()) is None)


@given(counts_of_pods)
def test_a_pod_that_is_worse_than_all_others_together_is_the_one_that_is_named(counts: Counts) -> None:
    good = {pod: (n, 0) for pod, (n, _) in counts.items()}
    culprit = lone_culprit(of_pods({**good, "bad": (60, 60)}), Settings())
    assert culprit is not None
    assert culprit.pod == "bad"


def test_a_pod_without_requests_is_no_witness() -> None:
    found = of_pods({"a": (10, 10), "b": (0, 0)})
    assert [pod.pod for pod in pods_with_requests(found)] == ["a"]
