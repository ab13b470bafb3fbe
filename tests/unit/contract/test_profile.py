"""The hardware profile, and whether some hardware matches it."""

import pytest
from backstay_contract.profile import NO_GPU, Hardware, HardwareProfile, differences, version_matches
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

H100 = HardwareProfile(
    gpu="NVIDIA-H100-80GB-HBM3", count=2, min_memory_gi_b=70, driver=">=550", cuda=">=12.4"
)  # fmt: skip
NODE = Hardware(gpu="NVIDIA H100 80GB HBM3", count=2, memory_gi_b=79.6, driver="550.54.15", cuda="12.4")

versions = st.lists(st.integers(0, 999), min_size=1, max_size=4).map(lambda parts: ".".join(map(str, parts)))


def test_hardware_that_is_the_profiles_has_no_difference() -> None:
    assert differences(H100, NODE) == []


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (NODE.with_(gpu="NVIDIA A100"), "gpu: the profile asks for NVIDIA-H100-80GB-HBM3, this node has NVIDIA A100"),
        (NODE.with_(gpu=NO_GPU), "gpu: the profile asks for NVIDIA-H100-80GB-HBM3, this node has none"),
        (NODE.with_(count=1), "count: the profile asks for 2 GPUs, found 1"),
        (NODE.with_(memory_gi_b=39.5), "minMemoryGiB: the profile asks for 70, the GPU has 39.5"),
        (NODE.with_(driver="535.183.01"), "driver: the profile asks for >=550, this node has 535.183.01"),
        (NODE.with_(driver=None), "driver: the profile asks for >=550, this node has none"),
        (NODE.with_(cuda="12.2"), "cuda: the profile asks for >=12.4, this node has 12.2"),
    ],
)
def test_each_difference_is_a_sentence_with_both_values(found: Hardware, said: str) -> None:
    assert differences(H100, found) == [said]


def test_all_differences_are_said_at_once() -> None:
    assert len(differences(H100, Hardware())) == 5


def test_more_gpus_and_more_memory_than_asked_for_are_no_difference() -> None:
    assert differences(H100, NODE.with_(count=8, memory_gi_b=141.0)) == []


def test_a_cpu_model_runs_on_a_node_with_a_gpu() -> None:
    assert differences(HardwareProfile(), NODE) == []


@given(versions)
def test_a_version_matches_itself_and_both_closed_ranges(version: str) -> None:
    assert all(version_matches(sign + version, version) for sign in ("", "==", ">=", "<="))
    assert not any(version_matches(sign + version, version) for sign in ("<", ">"))


@given(versions, versions)
def test_exactly_one_of_less_equal_and_greater_holds(wanted: str, found: str) -> None:
    assert [version_matches(sign + wanted, found) for sign in ("<", "==", ">")].count(True) == 1


@given(versions, versions)
def test_a_closed_range_is_the_open_one_or_equal(wanted: str, found: str) -> None:
    for sign in "<>":
        either = version_matches(sign + wanted, found) or version_matches(wanted, found)
        assert version_matches(f"{sign}={wanted}", found) == either


@pytest.mark.parametrize("found", [None, "", "12.x", "v12", "12.", "unknown", "12.4-rc1"])
def test_an_unknown_version_never_matches(found: str | None) -> None:
    assert not any(version_matches(sign + "0", found) for sign in ("", "==", ">=", "<=", "<", ">"))


def test_versions_are_compared_as_numbers_and_missing_parts_are_zero() -> None:
    assert version_matches(">=9.2", "10.1")
    assert version_matches("12.4", "12.4.0")
    assert not version_matches(">12.4", "12.4.0")


@pytest.mark.parametrize("text", ["", ">=", "~12", ">= 12", "12.4.1.1.1", "latest", "12.4 "])
def test_what_is_no_range_of_versions_is_refused_with_the_field(text: str) -> None:
    with pytest.raises(ValidationError, match="driver"):
        HardwareProfile(driver=text)


@pytest.mark.parametrize(("gpu", "count"), [("none", 1), ("NVIDIA-H100", 0)])
def test_a_count_that_does_not_fit_the_gpu_is_refused(gpu: str, count: int) -> None:
    with pytest.raises(ValidationError, match="must be 0 when gpu is none, and at least 1 otherwise"):
        HardwareProfile(gpu=gpu, count=count)


def test_on_cpu_nothing_is_asked_for() -> None:
    assert HardwareProfile().to_json() == {"gpu": "none", "count": 0, "minMemoryGiB": 0}
