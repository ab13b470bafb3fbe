"""The hardware profile against the labels of nodes, as NVIDIA's gpu-feature-discovery writes them."""

from decimal import Decimal
from typing import Any

import pytest
from backstay_contract.profile import HardwareProfile
from backstay_contract.reasons import Reason
from backstay_operator.rollout.capacity.hardware import matching
from backstay_operator.rollout.capacity.nodes import GPU_RESOURCE, Node, hardware_of, slices_of
from backstay_operator.rollout.capacity.shortage import Shortage
from hypothesis import given
from hypothesis import strategies as st

H100, A100 = "NVIDIA-H100-80GB-HBM3", "NVIDIA-A100-SXM4-40GB"
LABELS = {
    "nvidia.com/gpu.product": H100,
    "nvidia.com/gpu.count": "8",
    "nvidia.com/gpu.memory": "81559",
    "nvidia.com/cuda.driver-version.full": "550.54.15",
    "nvidia.com/cuda.runtime-version.full": "12.4",
    "nvidia.com/mig.strategy": "single",
}
OLD_LABELS = {
    "nvidia.com/gpu.product": H100,
    "nvidia.com/gpu.count": "8",
    "nvidia.com/gpu.memory": "81559",
    "nvidia.com/cuda.driver.major": "550",
    "nvidia.com/cuda.driver.minor": "54",
    "nvidia.com/cuda.driver.rev": "15",
    "nvidia.com/cuda.runtime.major": "12",
    "nvidia.com/cuda.runtime.minor": "4",
}


def node(name: str = "n1", labels: dict[str, str] | None = None, gpus: int = 8) -> Node:
    return Node(name, LABELS if labels is None else labels, has={GPU_RESOURCE: Decimal(gpus)} if gpus else {})


def profile(**changes: Any) -> HardwareProfile:
    return HardwareProfile.model_validate({"gpu": H100, "count": 1} | changes)


def problem(wanted: HardwareProfile, *nodes: Node) -> Shortage:
    found = matching(wanted, nodes)
    assert isinstance(found, Shortage), found
    return found


@pytest.mark.parametrize("labels", [LABELS, OLD_LABELS])
def test_the_labels_of_new_and_of_old_releases_are_read(labels: dict[str, str]) -> None:
    found = hardware_of(node(labels=labels))
    assert found is not None
    assert (found.gpu, found.count, found.driver, found.cuda) == (H100, 8, "550.54.15", "12.4")
    assert found.memory_gi_b == pytest.approx(79.65, abs=0.01)


def test_a_node_that_is_the_profiles_matches() -> None:
    good = node()
    asked = profile(count=8, minMemoryGiB=79, driver=">=550", cuda=">=12.4")
    assert matching(asked, [good, node("n2", {}, 0)]) == [good]


def test_a_model_for_cpus_may_run_on_every_node() -> None:
    nodes = [node("n1", {}, 0), node("n2")]
    assert matching(HardwareProfile(), nodes) == nodes


def test_the_product_must_be_the_nodes_exactly() -> None:
    found = problem(profile(gpu="NVIDIA-H100"), node())
    assert found.reason is Reason.NO_MATCHING_NODES
    assert found.message == f"no node has 1 × NVIDIA-H100: seen: {H100} (n1)"


def test_a_product_may_be_written_as_the_driver_does() -> None:
    assert matching(profile(gpu=H100.replace("-", " ")), [node()]) == [node()]


def test_what_was_seen_is_named_once_each() -> None:
    others = [node(f"a{i}", LABELS | {"nvidia.com/gpu.product": A100}) for i in range(5)]
    found = problem(profile(), *others, node("cpu", {}, 0))
    assert f"seen: {A100} (a0, a1, a2 and 2 more), no GPU (cpu)" in found.message


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"minMemoryGiB": 80}, "n1: minMemoryGiB: the profile asks for 80, the GPU has 79.647"),
        ({"driver": ">=555"}, "n1: driver: the profile asks for >=555, this node has 550.54.15"),
        ({"cuda": "12.5"}, "n1: cuda: the profile asks for 12.5, this node has 12.4"),
        ({"count": 9}, "n1: count: the profile asks for 9 GPUs, found 8"),
    ],
)
def test_what_keeps_a_node_with_the_right_product_from_matching_is_said(asked: dict[str, Any], said: str) -> None:
    found = problem(profile(**asked), node())
    assert found.reason is Reason.NO_MATCHING_NODES
    assert said in found.message


def test_what_the_labels_leave_out_is_left_to_the_pod() -> None:
    bare = node(labels={"nvidia.com/gpu.product": H100})
    assert matching(profile(minMemoryGiB=80, driver=">=550", cuda=">=12.4"), [bare]) == [bare]


def test_gpus_without_a_name_are_ambiguous_and_the_remedy_is_said() -> None:
    found = problem(profile(), node("n1", {}), node("n2", {}, 0))
    assert found.reason is Reason.PROFILE_AMBIGUOUS
    assert "have no label nvidia.com/gpu.product (n1)" in found.message
    assert "gpu-feature-discovery" in found.message


def test_one_node_that_matches_settles_it_whatever_others_leave_open() -> None:
    good = node("n2")
    assert matching(profile(), [node("n1", {}), good]) == [good]


def test_a_node_whose_device_plugin_is_away_has_none_of_its_gpus() -> None:
    assert "count: the profile asks for 1 GPUs, found 0" in problem(profile(), node(gpus=0)).message


def test_gpus_that_pods_share_are_another_product() -> None:
    shared = node(labels=LABELS | {"nvidia.com/gpu.product": f"{H100}-SHARED", "nvidia.com/gpu.replicas": "4"}, gpus=32)
    assert f"{H100}-SHARED" in problem(profile(), shared).message
    assert matching(profile(gpu=f"{H100}-SHARED"), [shared]) == [shared]


def test_slices_of_the_strategy_single_are_products_like_others() -> None:
    name = f"{A100}-MIG-1g.5gb"
    sliced = node(labels={"nvidia.com/gpu.product": name, "nvidia.com/gpu.count": "56"}, gpus=56)
    assert matching(profile(gpu=name, count=2), [sliced]) == [sliced]


def test_slices_with_a_resource_of_their_own_are_seen_and_the_remedy_is_said() -> None:
    name = f"{A100}-MIG-3g.20gb"
    mixed = {
        "nvidia.com/gpu.product": A100,
        "nvidia.com/mig.strategy": "mixed",
        "nvidia.com/mig-3g.20gb.product": name,
        "nvidia.com/mig-3g.20gb.count": "2",
    }
    assert slices_of(node(labels=mixed)) == {name: "nvidia.com/mig-3g.20gb"}
    found = problem(profile(gpu=name), node(labels=mixed))
    assert "has it as nvidia.com/mig-3g.20gb" in found.message
    assert "strategy must be single" in found.message


def test_a_cluster_without_nodes_says_so() -> None:
    assert "there are no nodes" in problem(profile()).message


TEXTS = st.sampled_from(["", "8", "-1", "x", "1e9", "550.54.15", "²", H100])


@given(st.dictionaries(st.sampled_from([*LABELS, *OLD_LABELS, "nvidia.com/mig-.product"]), TEXTS), st.integers(0, 9))
def test_whatever_the_labels_say_there_is_an_answer(labels: dict[str, str], gpus: int) -> None:
    asked = profile(minMemoryGiB=10, driver=">=550", cuda="12")
    found = matching(asked, [node(labels=labels, gpus=gpus)])
    if not isinstance(found, Shortage):
        assert [one.labels["nvidia.com/gpu.product"] for one in found] == [H100]
