"""Room on nodes, reckoned before a pod is made."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pytest
from backstay_contract import quantity
from backstay_contract.reasons import Reason
from backstay_contract.serving import Toleration
from backstay_contract.status import Colour, Recipe
from backstay_operator.rollout.capacity.nodes import GPU_PRODUCT, GPU_RESOURCE, Amounts, Node, Taint
from backstay_operator.rollout.capacity.reckoning import bears, fits, need, shortage
from hypothesis import given
from hypothesis import strategies as st

from .world import spec

H100 = "NVIDIA-H100-80GB-HBM3"


def amounts(**texts: str) -> Amounts:
    return {name.replace("_", "-"): quantity.parse(text) for name, text in texts.items()}


def recipe(serving: Mapping[str, Any] | None = None, gpus: int = 0) -> Recipe:
    profile = {"gpu": H100, "count": gpus} if gpus else {}
    one = spec("a", serving=serving or {}, hardwareProfile=profile)
    return Recipe(model=one.model, serving=one.serving, hardware_profile=one.hardware_profile)


def node(name: str = "n1", *, taken: Amounts | None = None, gpus: int = 0, **more: Any) -> Node:
    has = dict(amounts(cpu="8", memory="32Gi", pods="110")) | ({GPU_RESOURCE: Decimal(gpus)} if gpus else {})
    labels = {GPU_PRODUCT: H100} if gpus else {}
    return Node(name, more.pop("labels", labels), has=has, taken=taken or {}, **more)


FOUR_CORES = recipe({"resources": {"requests": {"cpu": "4", "memory": "1Gi"}}})


# --- what a pod needs --------------------------------------------------------------------------------------------


def test_a_pod_needs_its_requests_its_gpus_and_one_place() -> None:
    asked = need(recipe({"resources": {"requests": {"cpu": "500m"}, "limits": {"memory": "2Gi"}}}, gpus=2))
    assert asked == {**amounts(cpu="500m", memory="2Gi", pods="1"), GPU_RESOURCE: 2}


def test_a_request_goes_before_the_limit() -> None:
    assert need(recipe({"resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "4"}}}))["cpu"] == 1


def test_a_pod_that_asks_for_nothing_needs_a_place_only() -> None:
    assert need(recipe()) == amounts(pods="1")
    assert need(recipe({"resources": {"requests": {"cpu": "0"}}})) == amounts(pods="1")


# --- how many fit ------------------------------------------------------------------------------------------------


def test_room_is_what_no_other_pod_asked_for() -> None:
    assert shortage(FOUR_CORES, 2, [node()]) is None
    assert shortage(FOUR_CORES, 2, [node(taken=amounts(cpu="1"))]) is not None
    assert shortage(FOUR_CORES, 2, [node(taken=amounts(cpu="1")), node("n2")]) is None


def test_the_message_names_need_and_free() -> None:
    found = shortage(FOUR_CORES, 2, [node(taken=amounts(cpu="1", pods="10")), node("n2", ready=False)])
    assert found is not None
    assert found.reason is Reason.INSUFFICIENT_CAPACITY
    assert found.message == (
        "need=2 × (cpu 4, memory 1Gi, pods 1) free=room for 1 (n1: cpu 7, memory 32Gi, pods 100); "
        "n2 not ready, or cordoned"
    )


def test_many_nodes_are_named_by_the_roomiest() -> None:
    found = shortage(FOUR_CORES, 20, [node(f"n{i}", taken=amounts(cpu="7")) for i in range(5)] + [node("big")])
    assert found is not None
    assert "room for 2 (big: " in found.message
    assert "and 3 more" in found.message
    assert len(found.message) < 400


def test_a_cluster_without_nodes_has_no_room() -> None:
    found = shortage(recipe(), 1, [])
    assert found is not None
    assert "no node is open" in found.message


def test_the_number_of_pods_on_a_node_is_bounded_too() -> None:
    assert shortage(recipe(), 1, [node(taken=amounts(pods="110"))]) is not None


def test_a_colour_that_goes_down_leaves_its_room() -> None:
    full = node(taken=amounts(cpu="8", pods="3"), held={Colour.BLUE: amounts(cpu="4", pods="1")})
    assert shortage(FOUR_CORES, 1, [full]) is not None
    assert shortage(FOUR_CORES, 1, [full], gives_way=Colour.BLUE) is None
    assert shortage(FOUR_CORES, 1, [full], gives_way=Colour.GREEN) is not None


def test_a_node_that_promised_more_than_it_has_gives_no_room_and_takes_none_from_others() -> None:
    assert fits(node(taken=amounts(cpu="20")), amounts(cpu="1")) == 0
    assert shortage(FOUR_CORES, 2, [node(taken=amounts(cpu="20")), node("n2")]) is None


ROOMS = st.lists(st.integers(0, 9), max_size=6)


@given(ROOMS, st.integers(1, 4), st.integers(1, 12))
def test_pods_fit_exactly_where_first_fit_places_them(cores: list[int], each: int, pods: int) -> None:
    one = recipe({"resources": {"requests": {"cpu": str(each)}}})
    nodes = [Node(f"n{i}", has=amounts(cpu=str(has), pods="110")) for i, has in enumerate(cores)]
    left, placed = list(cores), 0
    for _ in range(pods):
        at = next((i for i, free in enumerate(left) if free >= each), None)
        if at is not None:
            left[at] -= each
            placed += 1
    assert (shortage(one, pods, nodes) is None) == (placed == pods)


@given(ROOMS, st.integers(1, 12), st.integers(0, 9))
def test_more_room_never_makes_pods_not_fit(cores: list[int], pods: int, more: int) -> None:
    nodes = [Node(f"n{i}", has=amounts(cpu=str(has), memory="64Gi", pods="110")) for i, has in enumerate(cores)]
    if shortage(FOUR_CORES, pods, nodes) is None:
        extra = Node("extra", has=amounts(cpu=str(more), memory="1Gi", pods="1"))
        assert shortage(FOUR_CORES, pods, [*nodes, extra]) is None


# --- which nodes take a pod --------------------------------------------------------------------------------------


def test_a_node_selector_must_hold() -> None:
    pooled = recipe({"nodeSelector": {"pool": "serving"}})
    found = shortage(pooled, 1, [node(), node("n2", labels={"pool": "other"})])
    assert found is not None
    assert "n1 lacks the label pool=serving; n2 lacks the label pool=serving" in found.message
    assert shortage(pooled, 1, [node(labels={"pool": "serving"})]) is None


@pytest.mark.parametrize("effect", ["NoSchedule", "NoExecute"])
def test_a_taint_that_is_not_tolerated_closes_a_node(effect: str) -> None:
    tainted = node(taints=(Taint("team", "ml", effect),))
    found = shortage(recipe(), 1, [tainted])
    assert found is not None
    assert f"n1 has the taint team=ml:{effect}" in found.message
    assert shortage(recipe({"tolerations": [{"key": "team", "value": "ml"}]}), 1, [tainted]) is None


def test_a_taint_that_only_prefers_closes_nothing() -> None:
    assert shortage(recipe(), 1, [node(taints=(Taint("team", "ml", "PreferNoSchedule"),))]) is None


def test_nodes_with_gpus_may_have_their_usual_taint() -> None:
    gpu_node = node(gpus=4, taints=(Taint(GPU_RESOURCE, "present"),))
    assert shortage(recipe(gpus=2), 2, [gpu_node]) is None
    found = shortage(recipe(gpus=2), 3, [gpu_node])
    assert found is not None
    assert "need=3 × (nvidia.com/gpu 2, pods 1)" in found.message
    assert shortage(recipe(), 1, [gpu_node]) is not None


@pytest.mark.parametrize(
    ("toleration", "taint", "is_borne"),
    [
        (Toleration(operator="Exists"), Taint("a", "b", "NoExecute"), True),
        (Toleration(key="a", operator="Exists"), Taint("a", "b"), True),
        (Toleration(key="a", operator="Exists"), Taint("c", "b"), False),
        (Toleration(key="a", value="b"), Taint("a", "b"), True),
        (Toleration(key="a", value="b"), Taint("a", "c"), False),
        (Toleration(key="a"), Taint("a", ""), True),
        (Toleration(key="a", value="b", effect="NoExecute"), Taint("a", "b", "NoSchedule"), False),
        (Toleration(key="a", value="b", effect="NoSchedule"), Taint("a", "b", "NoSchedule"), True),
    ],
)
def test_tolerations_are_compared_as_the_scheduler_does(toleration: Toleration, taint: Taint, is_borne: bool) -> None:
    assert bears([toleration], taint) is is_borne
