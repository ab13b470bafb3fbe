"""Names that Kubernetes, Prometheus and S3 must take."""

import re

import pytest
from backstay_contract import names
from hypothesis import given
from hypothesis import strategies as st

HOST_NAME = 63
REPLICA_SET_HASH = "-" + "x" * 10
POD_SUFFIX = "-" + "x" * 5

resource_names = st.from_regex(rf"\A[a-z]([-a-z0-9]{{0,{names.MAX_NAME - 2}}}[a-z0-9])?\Z")


def constants(group: type) -> dict[str, str]:
    return {key: value for key, value in vars(group).items() if not key.startswith("_") and isinstance(value, str)}


@given(resource_names, st.sampled_from(["blue", "green"]))
def test_a_pods_name_fits_into_a_host_name(resource: str, colour: str) -> None:
    pod = names.deployment(resource, colour) + REPLICA_SET_HASH + POD_SUFFIX

    assert len(pod) <= HOST_NAME


def test_one_more_character_would_not_fit() -> None:
    pod = names.deployment("x" * (names.MAX_NAME + 1), "green") + REPLICA_SET_HASH + POD_SUFFIX

    assert len(pod) == HOST_NAME + 1


@given(resource_names)
def test_the_preview_service_has_a_name_that_a_service_may_have(resource: str) -> None:
    assert re.fullmatch(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", names.preview(resource))


@given(resource_names)
def test_the_children_of_a_resource_have_distinct_names(resource: str) -> None:
    children = {names.deployment(resource, "blue"), names.deployment(resource, "green"), names.preview(resource)}

    assert len(children | {resource}) == 4


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_limit_reads_back_from_its_label_as_the_same_number(limit: float) -> None:
    assert float(names.format_limit(limit)) == limit


def test_equal_limits_have_one_label_whether_whole_or_not() -> None:
    assert names.format_limit(840) == names.format_limit(840.0)


@pytest.mark.parametrize("group", [names.Label, names.Annotation])
def test_keys_of_labels_and_annotations_are_distinct_and_qualified(group: type) -> None:
    found = constants(group)

    assert len(set(found.values())) == len(found)
    assert all(re.fullmatch(r"[a-z.]+/[a-z-]{1,63}", key) for key in found.values())


def test_environment_variables_are_distinct_and_ours() -> None:
    found = constants(names.Env)

    assert len(set(found.values())) == len(found)
    assert all(re.fullmatch(r"BACKSTAY_[A-Z0-9_]+", name) for name in found.values())


def test_metrics_are_distinct_and_ours_and_counters_end_in_total() -> None:
    found = constants(names.RuntimeMetric)

    assert len(set(found.values())) == len(found)
    assert all(re.fullmatch(r"backstay_[a-z_]+", name) for name in found.values())
    assert all(
        found[counter].endswith("_total")
        for counter in ("JUDGED", "SLOW", "FINISHED", "PREEMPTIONS", "TOKENS_IN", "TOKENS_OUT")
    )


def test_a_pods_two_ports_are_distinct() -> None:
    assert names.Port.HTTP != names.Port.CONTROL


def test_the_api_version_is_group_and_version() -> None:
    assert names.API_VERSION == "backstay.dev/v1alpha1"
