"""A pod that Prometheus scrapes twice is counted once."""

from backstay_judge import Sample
from backstay_operator.evidence import targets
from hypothesis import given
from hypothesis import strategies as st


def sample(pod: str, job: str, timestamp: float, name: str = "backstay_requests_finished_total") -> Sample:
    return Sample(name, {"pod": pod, "job": job, "instance": f"{pod}:8000"}, 1.0, timestamp)


samples = st.lists(
    st.builds(
        sample,
        st.sampled_from(["a", "b"]),
        st.sampled_from(["annotations", "monitor"]),
        st.floats(0, 100),
        st.sampled_from(["x", "y"]),
    )
)


def test_the_target_that_was_scraped_last_is_kept_with_all_its_series() -> None:
    old = [sample("a", "annotations", 10.0, "x"), sample("a", "annotations", 10.0, "y")]
    new = [sample("a", "monitor", 12.0, "x"), sample("a", "monitor", 12.0, "y")]
    assert targets.one_per_pod([*old, *new]) == tuple(new)


def test_pods_do_not_compete_with_each_other() -> None:
    both = [sample("a", "annotations", 10.0), sample("b", "monitor", 12.0)]
    assert targets.one_per_pod(both) == tuple(both)


@given(samples)
def test_each_pod_keeps_one_target_and_its_newest_sample(given_: list[Sample]) -> None:
    kept = targets.one_per_pod(given_)
    for pod in {one.labels["pod"] for one in given_}:
        of_pod = [one for one in kept if one.labels["pod"] == pod]
        assert len({one.labels["job"] for one in of_pod}) == 1
        assert max(one.timestamp for one in of_pod) == max(one.timestamp for one in given_ if one.labels["pod"] == pod)


@given(samples)
def test_nothing_is_lost_where_there_is_one_target(given_: list[Sample]) -> None:
    single = [one for one in given_ if one.labels["job"] == "monitor"]
    assert targets.one_per_pod(single) == tuple(single)
