"""Nodes as the API server tells them, and what pods on them ask for."""

import asyncio
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pytest
from backstay_contract import names
from backstay_contract.names import Label
from backstay_contract.resource import ModelDeploymentSpec
from backstay_contract.status import Colour
from backstay_operator import kinds
from backstay_operator.client import ApiError
from backstay_operator.desired.common import Owner
from backstay_operator.desired.deployment import deployment
from backstay_operator.observe.cluster import LEAST_SECONDS, MOST_SECONDS, ON_NODES, Cluster
from backstay_operator.observe.nodes import node_of, requests_of
from backstay_operator.queue import Key
from backstay_operator.rollout import revision
from backstay_operator.rollout.capacity.nodes import Amounts, Taint
from backstay_operator.rollout.capacity.reckoning import need
from hypothesis import given
from hypothesis import strategies as st

from .conftest import resource_body

Json = dict[str, Any]
OWNER = Owner("prod", "chat", "uid-1")
CHAT = Key("prod", "chat")


def container(requests: Mapping[str, str] | None = None, **more: Any) -> Json:
    return {"name": "c", "resources": {"requests": dict(requests or {})}, **more}


def pod(name: str = "p", node: str = "n1", namespace: str = "other", **spec: Any) -> Json:
    labels = spec.pop("labels", {})
    body = {"containers": [container({"cpu": "1"})], "nodeName": node, **spec}
    return {"metadata": {"name": name, "namespace": namespace, "labels": labels}, "spec": body}


def node(name: str = "n1", ready: str = "True", **spec: Any) -> Json:
    return {
        "metadata": {"name": name, "namespace": "", "labels": {"pool": "a"}},
        "spec": spec,
        "status": {
            "allocatable": {"cpu": "3800m", "memory": "7Gi", "pods": "110", "nvidia.com/gpu": "8", "odd": "many"},
            "conditions": [{"type": "Ready", "status": ready}],
        },
    }


# --- what a pod asks for -----------------------------------------------------------------------------------------

TWO = container({"cpu": "2", "memory": "1Gi"})
THREE = container({"cpu": "3"})


@pytest.mark.parametrize(
    ("spec", "cpu"),
    [
        ({"containers": [TWO, THREE]}, 5),
        ({"containers": [TWO], "initContainers": [THREE, TWO]}, 3),
        ({"containers": [TWO], "initContainers": [TWO | {"restartPolicy": "Always"}]}, 4),
        ({"containers": [TWO], "initContainers": [TWO | {"restartPolicy": "Always"}, THREE]}, 5),
        ({"containers": [TWO], "initContainers": [THREE, TWO | {"restartPolicy": "Always"}]}, 4),
        ({"containers": [TWO], "overhead": {"cpu": "250m"}}, Decimal("2.25")),
        ({"containers": [TWO, THREE], "resources": {"requests": {"cpu": "1"}}}, 1),
        ({"containers": [container()]}, 0),
        ({"containers": [{"name": "c", "resources": {"limits": {"cpu": "7"}}}]}, 7),
        ({"containers": [container({"cpu": "many"})]}, 0),
    ],
)
def test_a_pod_asks_for_what_kubernetes_reckons(spec: Json, cpu: Decimal) -> None:
    asked = requests_of(pod(**spec))
    assert asked.get("cpu", Decimal(0)) == cpu
    assert asked["pods"] == 1


AMOUNTS = st.dictionaries(st.sampled_from(["cpu", "memory"]), st.sampled_from(["1", "500m", "2Gi"]))


@given(st.lists(AMOUNTS, max_size=3), st.lists(st.tuples(AMOUNTS, st.booleans()), max_size=3))
def test_a_pod_never_asks_for_less_than_one_of_its_containers(
    running: list[Json], first: list[tuple[Json, bool]]
) -> None:
    inits = [container(asked, **({"restartPolicy": "Always"} if sidecar else {})) for asked, sidecar in first]
    total = requests_of(pod(containers=[container(asked) for asked in running], initContainers=inits))
    for one in [*running, *(asked for asked, _ in first)]:
        alone = requests_of(pod(containers=[container(one)]))
        assert all(total[name] >= amount for name, amount in alone.items())


@pytest.mark.parametrize("gpus", [0, 2])
@pytest.mark.parametrize(
    "resources",
    [
        {},
        {"requests": {"cpu": "500m", "memory": "2Gi"}},
        {"requests": {"cpu": "500m"}, "limits": {"cpu": "2", "memory": "4Gi", "ephemeral-storage": "10Gi"}},
    ],
)
def test_the_pre_check_reckons_with_what_a_rendered_pod_asks_for(resources: Json, gpus: int) -> None:
    body = resource_body()["spec"] | {"serving": {"resources": resources}}
    spec = ModelDeploymentSpec.model_validate(
        body | ({"hardwareProfile": {"gpu": "NVIDIA-L4", "count": gpus}} if gpus else {})
    )
    build = revision.of_spec(spec, "runtime:1", ())
    rendered = deployment(OWNER, spec, Colour.BLUE, build, attempt="r-1", replicas=1, token_hash="")
    template = {"metadata": {}, "spec": rendered["spec"]["template"]["spec"]}
    assert dict(requests_of(template)) == dict(need(build.recipe))


# --- nodes -------------------------------------------------------------------------------------------------------


def test_a_node_is_read_with_its_labels_taints_and_what_it_has() -> None:
    taken: dict[str, Amounts] = {"n1": {"cpu": Decimal(1)}}
    found = node_of(node(taints=[{"key": "a", "value": "b", "effect": "NoExecute"}, {"key": "c"}]), taken)
    assert (found.name, found.labels, found.ready) == ("n1", {"pool": "a"}, True)
    assert found.taints == (Taint("a", "b", "NoExecute"), Taint("c", "", ""))
    assert [found.free(name) for name in ("cpu", "odd", "unheard-of")] == [Decimal("2.8"), Decimal(0), Decimal(0)]


@pytest.mark.parametrize("body", [node(ready="False"), node(ready="Unknown"), node(unschedulable=True)])
def test_a_node_that_takes_no_pods_is_not_ready(body: Json) -> None:
    assert not node_of(body, {}).ready


def test_a_bare_node_that_only_just_registered_is_not_ready() -> None:
    assert not node_of({"metadata": {"name": "n1"}}, {}).ready


async def test_all_pods_take_room_and_the_resources_own_are_held_by_their_colour(api: Any) -> None:
    api.put(kinds.NODE, node())
    api.put(kinds.NODE, node("n2"))
    own = {Label.RESOURCE: "chat", Label.MANAGED_BY: names.MANAGED_BY, Label.COLOUR: "blue"}
    api.put(kinds.POD, pod("stranger"))
    api.put(kinds.POD, pod("blue-1", namespace="prod", labels=own))
    api.put(kinds.POD, pod("namesake", namespace="elsewhere", labels=own))
    api.put(kinds.POD, pod("far", node="n2"))
    found = await Cluster(api).nodes(CHAT)
    n1, n2 = found.all
    one = {"cpu": Decimal(1), "pods": Decimal(1)}
    assert (n1.taken, n2.taken) == ({"cpu": Decimal(3), "pods": Decimal(3)}, one)
    assert dict(n1.held) == {Colour.BLUE: one}
    assert not n2.held
    assert (n1.free("cpu"), n1.free("cpu", Colour.BLUE)) == (Decimal("0.8"), Decimal("1.8"))
    assert api.selected == {kinds.POD: ON_NODES, kinds.NODE: ""}


@pytest.mark.parametrize("kind", [kinds.NODE, kinds.POD])
async def test_where_the_operator_may_not_list_them_nothing_is_known_and_the_reason_is_kept(
    api: Any, kind: Any
) -> None:
    api.put(kinds.NODE, node())
    api.fail = lambda _, of, __: ApiError(403, "Forbidden", "nodes is forbidden", "GET") if of == kind else None
    found = await Cluster(api).nodes(CHAT)
    assert found.all == ()
    assert "forbidden" in found.problem


async def test_a_cluster_that_takes_too_long_to_read_holds_up_no_pass(
    api: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def endless(*_: Any) -> Any:
        while True:
            yield []
            await asyncio.sleep(0.01)

    monkeypatch.setattr("backstay_operator.observe.cluster.SECONDS", 0.05)
    monkeypatch.setattr(api, "pages", endless)
    assert "within 0.05 s" in (await Cluster(api).nodes(CHAT)).problem


# --- one read for many -------------------------------------------------------------------------------------------


class Slow:
    """An API server whose every list takes so long by the clock."""

    def __init__(self, api: Any, seconds: float) -> None:
        self.api, self.seconds, self.now, self.reads = api, seconds, 100.0, 0

    async def pages(self, kind: Any, fields: str = "") -> Any:
        self.reads += kind == kinds.POD
        self.now += self.seconds / 2
        await asyncio.sleep(0)
        async for page in self.api.pages(kind, fields):
            yield page


async def test_resources_that_begin_at_the_same_moment_share_one_read_and_each_has_its_own_colours(api: Any) -> None:
    api.put(kinds.NODE, node())
    for name in ("chat", "other"):
        own = {Label.RESOURCE: name, Label.MANAGED_BY: names.MANAGED_BY, Label.COLOUR: "green"}
        api.put(kinds.POD, pod(f"{name}-1", namespace="prod", labels=own))
    slow = Slow(api, 0.02)
    cluster = Cluster(slow, lambda: slow.now)  # type: ignore[arg-type]
    keys = [Key("prod", name) for name in ("chat", "other", "third")]
    found = await asyncio.gather(*(cluster.nodes(key) for key in keys))
    assert slow.reads == 1
    one = {"cpu": Decimal(1), "pods": Decimal(1)}
    assert [dict(nodes.all[0].held) for nodes in found] == [{Colour.GREEN: one}, {Colour.GREEN: one}, {}]
    assert {nodes.all[0].free("cpu") for nodes in found} == {Decimal("1.8")}


@given(st.floats(0, 15))
def test_a_read_counts_for_a_while_that_grows_with_what_it_took_and_never_for_long(seconds: float) -> None:
    class Empty:
        async def pages(self, *_: Any) -> Any:
            yield []

    async def play() -> None:
        slow = Slow(Empty(), seconds)
        cluster = Cluster(slow, lambda: slow.now)  # type: ignore[arg-type]
        await cluster.nodes(CHAT)
        ended = slow.now
        slow.now = ended + min(MOST_SECONDS, max(LEAST_SECONDS, 10 * seconds)) - 0.01
        await cluster.nodes(CHAT)
        assert slow.reads == 1
        slow.now += 0.02
        await cluster.nodes(CHAT)
        assert slow.reads == 2

    asyncio.run(play())


async def test_whoever_takes_something_down_because_of_it_reads_anew(api: Any) -> None:
    slow = Slow(api, 2.0)
    cluster = Cluster(slow, lambda: slow.now)  # type: ignore[arg-type]
    await cluster.nodes(CHAT)
    await cluster.nodes(CHAT)
    assert slow.reads == 1
    await asyncio.gather(cluster.nodes(CHAT, fresh=True), cluster.nodes(Key("prod", "other"), fresh=True))
    assert 2 <= slow.reads <= 3


async def test_a_read_that_failed_is_tried_again_soon(api: Any) -> None:
    slow = Slow(api, 20.0)
    cluster = Cluster(slow, lambda: slow.now)  # type: ignore[arg-type]
    api.fail = lambda _, kind, __: ApiError(0, "Timeout", "no answer", "GET") if kind == kinds.NODE else None
    assert (await cluster.nodes(CHAT)).problem
    slow.now += LEAST_SECONDS
    api.fail = lambda *_: None
    assert not (await cluster.nodes(CHAT)).problem
