from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from backstay_contract.names import Annotation, Label
from backstay_contract.reasons import Reason
from backstay_contract.resource import SecretRef, parse_spec
from backstay_contract.status import Colour
from backstay_operator.desired.common import Owner
from backstay_operator.desired.deployment import deployment as rendered
from backstay_operator.observe import children as reading
from backstay_operator.observe.children import Children
from backstay_operator.observe.colours import incarnation, state_of
from backstay_operator.rollout.revision import Wanted, recipe_of, source_of

Json = dict[str, Any]
OWNER = Owner("prod", "chat", "uid-1")
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
MINE = [{"uid": "uid-1", "controller": True}]


def labels(colour: str = "green") -> Json:
    return {Label.RESOURCE: "chat", Label.MANAGED_BY: "backstay", Label.COLOUR: colour, Label.REVISION: "rev"}


def deployment(replicas: int = 2, colour: str = "green", owners: list[Json] | None = None) -> Json:
    annotations = {Annotation.ATTEMPT: "rev-3", Annotation.DIGEST: "sha256:aa", Annotation.MODEL_VERSION: "1.1"}
    containers = [{"name": "sidecar", "image": "other"}, {"name": "serve", "image": "runtime:1"}]
    return {
        "metadata": {
            "name": f"chat-{colour}",
            "namespace": "prod",
            "labels": labels(colour),
            "annotations": annotations,
            "ownerReferences": MINE if owners is None else owners,
        },
        "spec": {"replicas": replicas, "template": {"spec": {"containers": containers}}},
    }


def pod(name: str, *, ready: bool = True, attempt: str = "rev-3", phase: str = "Running", **metadata: Any) -> Json:
    return {
        "metadata": {
            "name": name,
            "namespace": "prod",
            "labels": labels(),
            "annotations": {Annotation.ATTEMPT: attempt},
            **metadata,
        },
        "status": {
            "phase": phase,
            "podIP": "10.0.0.1",
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
        },
    }


def green(children: Children) -> Any:
    return state_of(Colour.GREEN, "chat", children, NOON)


def with_pods(*pods: Json, replicas: int = 2) -> Children:
    return Children(deployments={Colour.GREEN: deployment(replicas)}, pods={Colour.GREEN: list(pods)})


def test_a_colour_without_anything_is_gone() -> None:
    state = green(Children())
    assert (state.exists, state.gone, state.endpoints) == (False, True, 0)


def test_where_a_colour_fetches_its_model_is_read_from_what_was_rendered(stored: Json) -> None:
    spec = parse_spec(stored["spec"])
    secret = spec.model.storage.with_(secret_ref=SecretRef(name="reader"), region="eu-1")
    for one in (spec, spec.with_(model=spec.model.with_(storage=secret))):
        build = Wanted("0123456789ab", recipe_of(one, "runtime:1"))
        body = rendered(OWNER, one, Colour.GREEN, build, attempt="r-1", replicas=1, token_hash="x")
        assert green(Children(deployments={Colour.GREEN: body})).source == source_of(one.model)
    assert green(with_pods()).source is None


def test_a_deployment_that_cannot_make_pods_says_why() -> None:
    body = deployment()
    said = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "exceeded quota: gpus"}
    body["status"] = {"conditions": [{"type": "Available", "status": "False", "message": "no"}, said]}
    assert green(Children(deployments={Colour.GREEN: body})).problem == "exceeded quota: gpus"
    assert green(with_pods()).problem == ""


def test_what_a_colour_runs_stands_on_its_deployment() -> None:
    state = green(with_pods(pod("chat-green-1")))
    assert (state.exists, state.revision, state.attempt) == (True, "rev", "rev-3")
    assert (state.digest, state.version, state.image, state.replicas) == ("sha256:aa", "1.1", "runtime:1", 2)


@pytest.mark.case("T02")
def test_only_pods_of_the_present_attempt_count_as_ready() -> None:
    state = green(with_pods(pod("new"), pod("old", attempt="rev-2"), pod("slow", ready=False)))
    assert state.ready == 1
    assert [one.name for one in state.own_pods] == ["new", "slow"]


def test_a_pod_on_its_way_out_is_not_ready_and_still_there() -> None:
    state = green(with_pods(pod("a", deletionTimestamp="2026-01-01T12:00:00Z"), replicas=0))
    assert (state.ready, state.gone) == (0, False)


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_a_pod_that_ended_is_never_ready_and_does_not_keep_a_retired_colour_busy(phase: str) -> None:
    assert green(with_pods(pod("a", phase=phase))).ready == 0
    assert green(with_pods(pod("a", phase=phase), replicas=0)).gone
    assert not green(with_pods(pod("a", phase=phase), replicas=1)).gone


def test_an_evicted_pod_tells_why_while_its_colour_is_wanted() -> None:
    evicted = pod("a", phase="Failed")
    evicted["status"] |= {"reason": "Evicted", "message": "low on memory"}
    (one,) = green(with_pods(evicted)).pods
    assert one.failure.reason is Reason.EVICTED


def slice_of(*names: str) -> Json:
    return {"endpoints": [{"targetRef": {"kind": "Pod", "name": name}} for name in names]}


def test_endpoints_are_counted_by_colour_also_of_pods_that_are_gone_already() -> None:
    children = Children(
        deployments={Colour.GREEN: deployment()},
        pods={Colour.GREEN: [pod("chat-green-1")]},
        slices=[slice_of("chat-green-1", "chat-blue-1"), slice_of("chat-green-2"), {"endpoints": None}],
    )
    assert green(children).endpoints == 2
    assert state_of(Colour.BLUE, "chat", children, NOON).endpoints == 1


def test_another_resource_whose_name_begins_alike_has_its_own_endpoints() -> None:
    assert state_of(Colour.GREEN, "chat", Children(slices=[slice_of("chat-greener-1")]), NOON).endpoints == 0


def test_a_restarted_container_is_another_incarnation() -> None:
    one = pod("a")
    assert incarnation(one) == ""
    one["status"]["containerStatuses"] = [{"name": "serve", "containerID": "x://1", "state": {"running": {"at": 1}}}]
    two = {**one, "status": {"containerStatuses": [{**one["status"]["containerStatuses"][0], "containerID": "x://2"}]}}
    assert incarnation(one) == "x://1"
    assert incarnation(two) == "x://2"


async def test_children_are_found_by_label_and_owner(api: Any) -> None:
    from backstay_operator import kinds

    api.put(kinds.DEPLOYMENT, deployment(colour="green"))
    api.put(kinds.DEPLOYMENT, deployment(colour="blue", owners=[{"uid": "somebody"}]))
    api.put(kinds.POD, pod("chat-green-1"))
    service = {
        "metadata": {"name": "chat", "namespace": "prod", "labels": labels(), "ownerReferences": MINE},
        "spec": {},
    }
    api.put(kinds.SERVICE, service)
    other = {"metadata": {"name": "s", "namespace": "prod", "labels": {"kubernetes.io/service-name": "chat-preview"}}}
    api.put(kinds.ENDPOINT_SLICE, other)
    found = await reading.read(api, OWNER)
    assert set(found.deployments) == {Colour.GREEN}
    assert [p["metadata"]["name"] for p in found.pods[Colour.GREEN]] == ["chat-green-1"]
    assert found.active is not None
    assert (found.preview, list(found.slices)) == (None, [])


# --- pods on a node that does not answer -------------------------------------------------------------------------


def ending(since: float) -> Json:
    """A pod whose grace period ended so many seconds ago."""
    return pod("chat-green-1", ready=False, deletionTimestamp=f"{NOON - timedelta(seconds=since):%Y-%m-%dT%H:%M:%SZ}")


@pytest.mark.parametrize("since", [-300, 0, 59])
def test_a_pod_in_its_grace_period_or_shortly_after_it_is_waited_for(since: float) -> None:
    state = green(with_pods(ending(since), replicas=0))
    assert (state.gone, state.stuck) == (False, 0)


@pytest.mark.parametrize("since", [61, 86_400])
def test_a_pod_that_should_have_ended_long_ago_holds_nothing_up(since: float) -> None:
    state = green(with_pods(ending(since), replicas=0))
    assert (state.gone, state.stuck, state.pods) == (True, 1, ())


def test_a_stuck_pod_takes_no_other_with_it() -> None:
    state = green(with_pods(ending(120), pod("chat-green-2")))
    assert ([one.name for one in state.pods], state.stuck, state.gone) == (["chat-green-2"], 1, False)
