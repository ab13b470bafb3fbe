"""What stands beside the pods: as rendered, and kept in order."""

import copy
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from backstay_contract.metric import MetricName
from backstay_contract.names import Label
from backstay_contract.reasons import Reason
from backstay_contract.resource import parse_spec
from backstay_contract.status import (
    Attempt,
    Colour,
    MetricLimit,
    ModelDeploymentStatus,
    Side,
)
from backstay_operator import kinds
from backstay_operator.alerts import payload
from backstay_operator.apply.companions import LISTED_SECONDS, UNREAD_SECONDS, Companions, Kept
from backstay_operator.client import ApiError
from backstay_operator.desired import alerts, companions, disruption, monitoring, network
from backstay_operator.desired.common import Owner
from backstay_operator.desired.companions import Choice
from backstay_operator.rollout.decision import ColourPlan, Decision
from hypothesis import given
from hypothesis import strategies as st

from .test_desired import CPU, OWNER, compare
from .test_desired import render as deployment_of

BLUE, GREEN = Colour.BLUE, Colour.GREEN
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
NETWORK = network.Settings(operator=network.Operator(namespace="ops", labels={"app.kubernetes.io/name": "backstay"}))
EVERYTHING = Choice(
    network_policy=NETWORK,
    pod_monitor=monitoring.Settings(labels={"release": "kps"}),
    prometheus_rule=alerts.Settings(labels={"release": "kps"}),
)
DIGEST = "sha256:" + "ab" * 32
SPEC = parse_spec(CPU)
Json = dict[str, Any]


def side(colour: Colour) -> Side:
    return Side(colour=colour, version="1.0.0", digest=DIGEST, revision="0123456789ab")


def status(previous: Colour | None = None, **more: Any) -> ModelDeploymentStatus:
    return ModelDeploymentStatus(previous=None if previous is None else side(previous), **more)


def wanted(
    active: Colour | None = BLUE, previous: Colour | None = None, choice: Choice = EVERYTHING, **spec: Any
) -> dict[str, Json]:
    found = companions.wanted(OWNER, parse_spec({**CPU, **spec}), status(previous), active, choice)
    return {f"{one.kind.name} {one.body['metadata']['name']}": one.body for one in found}


# --- as rendered -------------------------------------------------------------------------------------------------


def test_the_companions_as_rendered() -> None:
    bodies = wanted()
    compare("disruption-budget", bodies["PodDisruptionBudget chat-blue"])
    compare("network-policy", bodies["NetworkPolicy chat"])
    compare("pod-monitor", bodies["PodMonitor chat"])
    compare("prometheus-rule", bodies["PrometheusRule chat"])


def budgets(active: Colour | None, previous: Colour | None) -> set[str]:
    return {name for name in wanted(active, previous) if name.startswith("PodDisruptionBudget")}


def test_a_candidate_has_no_disruption_budget_and_the_winner_of_a_flip_has_one() -> None:
    assert budgets(None, None) == set()
    assert budgets(BLUE, None) == {"PodDisruptionBudget chat-blue"}
    assert budgets(GREEN, BLUE) == {"PodDisruptionBudget chat-blue", "PodDisruptionBudget chat-green"}


@given(st.integers(1, 1000))
def test_a_drain_may_always_take_a_pod(replicas: int) -> None:
    share = disruption.Settings().max_unavailable
    assert isinstance(share, str)
    assert -(-replicas * int(share.removesuffix("%")) // 100) >= 1  # Kubernetes rounds up


@pytest.mark.parametrize("bad", [0, "0%", "101%", "half", -1])
def test_a_budget_that_would_hold_up_every_drain_is_refused(bad: Any) -> None:
    with pytest.raises(ValueError, match=r"maxUnavailable|max_unavailable"):
        disruption.Settings(max_unavailable=bad)


def rules_by_port(clients: tuple[Json, ...]) -> dict[int, Any]:
    body = network.policy(OWNER, NETWORK.with_(clients=clients))
    return {port["port"]: rule.get("from") for rule in body["spec"]["ingress"] for port in rule["ports"]}


def test_only_the_operators_pods_reach_the_control_port() -> None:
    (peer,) = rules_by_port(())[8081]
    assert peer["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": "ops"}
    assert peer["podSelector"]["matchLabels"] == {"app.kubernetes.io/name": "backstay"}


def test_clients_are_the_clusters_pods_and_can_be_narrowed_or_opened_but_never_shut_the_operator_out() -> None:
    (operator,) = rules_by_port(())[8081]
    assert NETWORK.clients == ({"namespaceSelector": {}},)
    mine = {"podSelector": {"matchLabels": {"app": "shop"}}}
    for port in (8000, 8001):  # HTTP and gRPC
        assert rules_by_port((mine,))[port] == [mine, operator]
        assert rules_by_port(())[port] is None  # everybody


def test_every_port_of_a_pod_is_spoken_of() -> None:
    (container,) = deployment_of(CPU)["spec"]["template"]["spec"]["containers"]
    assert {port["containerPort"] for port in container["ports"]} == set(rules_by_port(()))


def test_what_the_pods_send_is_left_alone() -> None:
    assert network.policy(OWNER, NETWORK)["spec"]["policyTypes"] == ["Ingress"]


def test_a_resource_can_leave_its_network_policy_to_others() -> None:
    assert "NetworkPolicy chat" not in wanted(networkPolicy="Unmanaged")


def test_nothing_that_was_not_chosen_is_made() -> None:
    assert wanted(choice=Choice(disruption_budget=None)) == {}
    assert set(wanted(choice=Choice())) == {"PodDisruptionBudget chat-blue"}


@given(st.from_regex(r"\A[a-z]([-a-z0-9]{0,38}[a-z0-9])?\Z"), st.sampled_from(list(Colour)))
def test_every_companion_has_a_name_that_fits_and_the_resource_as_its_owner(name: str, active: Colour) -> None:
    owner = Owner("prod", name, "uid-9")
    for _, body in companions.wanted(owner, SPEC, status(active.other), active, EVERYTHING):
        metadata = body["metadata"]
        assert re.fullmatch(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", metadata["name"])
        assert metadata["ownerReferences"][0]["uid"] == "uid-9"
        assert all(len(value) <= 63 for value in metadata["labels"].values())


# --- alerts ------------------------------------------------------------------------------------------------------


def rendered(limits: dict[MetricName, float] | None = None) -> dict[str, Json]:
    body = alerts.rule(OWNER, limits or {}, alerts.Settings())
    return {one["alert"]: one for one in body["spec"]["groups"][0]["rules"]}


def test_alerts_say_whom_they_are_about_and_each_keeps_the_models_digest() -> None:
    for one in rendered().values():
        assert one["labels"] == {"severity": "warning", "namespace": "prod", "modeldeployment": "chat"}
        assert "digest" in one["expr"]
        assert "digest" not in one["labels"]  # the series' own: a pod of another digest is told apart


def test_the_operators_webhook_knows_whom_each_alert_is_about() -> None:
    for name, one in rendered().items():
        fires = {"alertname": name, **one["labels"], "digest": DIGEST}
        alert = payload.Reported(status="firing", fingerprint="0a", labels=fires, startsAt=NOON)
        assert payload.about(alert) == payload.About("prod", "chat", DIGEST)


def test_the_latency_alert_compares_with_the_models_limit_or_else_with_half_a_second() -> None:
    assert "> 0.84 " in rendered({MetricName.P99_LATENCY: 840.0})["BackstayModelSlow"]["expr"]
    assert "> 0.5 " in rendered()["BackstayModelSlow"]["expr"]


@given(st.floats(1e-3, 1e7))
def test_the_latency_alerts_limit_is_the_edge_of_a_bucket(limit_ms: float) -> None:
    expression = rendered({MetricName.P99_LATENCY: limit_ms})["BackstayModelSlow"]["expr"]
    (written,) = re.findall(r"\)\)\) > (\S+)", expression)
    assert float(written) == pytest.approx(limit_ms / 1000, rel=1e-9)


def attempt(revision: str) -> Attempt:
    limit = MetricLimit(metric=MetricName.P99_LATENCY, limit=900.0)
    return Attempt(
        id=f"{revision}-1", revision=revision, digest=DIGEST, version="1.0.0", colour=BLUE, image="i",
        started_at=NOON, limits=(limit,),
    )  # fmt: skip


def test_the_limits_are_those_that_the_active_revision_was_judged_by_else_the_specs() -> None:
    spec = parse_spec({**CPU, "baselines": {"p99LatencyMs": {"value": 100, "tolerance": 2}}})
    now = status(active=side(BLUE))
    assert alerts.limits_of(spec, now.with_(attempt=attempt("0123456789ab"))) == {MetricName.P99_LATENCY: 900.0}
    assert alerts.limits_of(spec, now.with_(attempt=attempt("another00000"))) == {MetricName.P99_LATENCY: 200.0}
    assert alerts.limits_of(spec, status()) == {MetricName.P99_LATENCY: 200.0}


def test_the_alerts_pods_are_the_resources_and_not_those_of_one_whose_name_begins_the_same() -> None:
    (pattern,) = set(re.findall(r'pod=~"([^"]+)"', str(rendered())))
    assert re.fullmatch(pattern, "chat-blue-5f7d8c9b4d-x2x7k")
    assert not re.fullmatch(pattern, "chat-blue-green-5f7d8c9b4d-x2x7k")
    assert not re.fullmatch(pattern, "chat-two-blue-5f7d8c9b4d-x2x7k")


# --- compared with what is there ---------------------------------------------------------------------------------

values = st.recursive(
    st.one_of(st.integers(), st.text(max_size=3), st.booleans()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=8,
)
specs = st.dictionaries(st.text(max_size=2), values, min_size=1, max_size=4)


def around(spec: Json, **labels: str) -> Json:
    return {"metadata": {"labels": labels}, "spec": spec}


@given(specs, specs)
def test_what_the_api_server_added_is_no_difference(spec: Json, added: Json) -> None:
    live = around({**added, **spec}, a="1", more="x")
    assert companions.is_as_wanted(live, around(spec, a="1"))


@given(specs, st.data())
def test_every_changed_or_missing_field_is_a_difference(spec: Json, data: st.DataObject) -> None:
    live = copy.deepcopy(spec)
    key = data.draw(st.sampled_from(sorted(live)))
    if data.draw(st.booleans()):
        del live[key]
    else:
        live[key] = "somebody else's"
    assert not companions.is_as_wanted(around(live), around(spec))


def test_an_empty_selector_means_everything_so_a_narrowed_one_is_a_difference() -> None:
    narrowed = {"namespaceSelector": {"matchLabels": {"a": "b"}}}
    assert not companions.is_as_wanted(around(narrowed), around({"namespaceSelector": {}}))


def test_a_label_that_is_gone_is_a_difference() -> None:
    assert not companions.is_as_wanted(around({"a": 1}), around({"a": 1}, release="kps"))


# --- kept in order -----------------------------------------------------------------------------------------------


class Clock:
    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> datetime:
        return self.now


class Keeper:
    """Companions over the API server in memory, and its clock."""

    def __init__(self, api: Any, choice: Choice = EVERYTHING, namespaces: tuple[str, ...] = ()) -> None:
        self.api = api
        self.clock = Clock()
        self.companions = Companions(api, choice, namespaces, self.clock)

    async def keep(self, active: Colour | None = BLUE, previous: Colour | None = None, owner: Owner = OWNER) -> Any:
        decision = Decision(
            status(previous), active, None, {colour: ColourPlan(1) for colour in Colour}, Reason.SERVING, "as told"
        )
        self.api.writes.clear()
        return await self.companions.keep(owner, SPEC, decision)

    def there(self) -> set[str]:
        return {f"{kind.name} {name}" for kind, _, name in self.api.objects}


ALL = {"PodDisruptionBudget chat-blue", "NetworkPolicy chat", "PodMonitor chat", "PrometheusRule chat"}


async def test_they_are_made_once_and_then_nothing_is_written_or_read(api: Any) -> None:
    keeper = Keeper(api)
    assert (await keeper.keep()).changed
    assert keeper.there() == ALL
    api.fail = lambda *_: ApiError(500, "InternalError", "nobody is asked", "fake")
    assert await keeper.keep() == Kept()
    assert api.writes == []


async def test_a_new_operator_that_finds_them_writes_nothing(api: Any) -> None:
    await Keeper(api).keep()
    again = Keeper(api)
    assert not (await again.keep()).changed
    assert api.writes == []


async def test_the_flip_gives_the_winner_a_budget_in_the_same_pass_and_the_losers_ends_with_its_pods(api: Any) -> None:
    keeper = Keeper(api)
    await keeper.keep(BLUE)
    await keeper.keep(GREEN, previous=BLUE)
    assert api.writes == [("apply", "PodDisruptionBudget", "chat-green")]
    await keeper.keep(GREEN)
    assert api.writes == [("delete", "PodDisruptionBudget", "chat-blue")]


async def test_where_a_kind_is_unknown_nothing_of_it_is_made_until_it_is_installed(api: Any) -> None:
    unserved = {kinds.POD_MONITOR, kinds.PROMETHEUS_RULE}
    api.unserved = unserved
    keeper = Keeper(api)
    assert (await keeper.keep()).problems == ()
    assert keeper.there() == {"PodDisruptionBudget chat-blue", "NetworkPolicy chat"}
    unserved.clear()
    await keeper.keep()
    assert api.writes == []
    keeper.clock.now += timedelta(seconds=LISTED_SECONDS)
    await keeper.keep()
    assert keeper.there() == ALL


async def test_what_somebody_else_changed_is_put_right(api: Any) -> None:
    keeper = Keeper(api)
    await keeper.keep()
    api.objects[kinds.NETWORK_POLICY, "prod", "chat"]["spec"]["ingress"] = []
    del api.objects[kinds.POD_DISRUPTION_BUDGET, "prod", "chat-blue"]
    keeper.clock.now += timedelta(seconds=LISTED_SECONDS)
    await keeper.keep()
    assert sorted(api.writes) == [
        ("apply", "NetworkPolicy", "chat"),
        ("apply", "PodDisruptionBudget", "chat-blue"),
    ]


async def test_what_is_not_chosen_any_more_is_removed(api: Any) -> None:
    await Keeper(api).keep()
    await Keeper(api, Choice()).keep()
    assert {kind for _, kind, _ in api.writes} == {"NetworkPolicy", "PodMonitor", "PrometheusRule"}
    assert Keeper(api).there() == {"PodDisruptionBudget chat-blue"}


async def test_another_resources_companions_are_left_alone(api: Any) -> None:
    keeper = Keeper(api)
    await keeper.keep(owner=replace(OWNER, name="other", uid="uid-2"))
    await keeper.keep(None, owner=replace(OWNER, uid="uid-3"))
    assert "PodDisruptionBudget other-blue" in keeper.there()
    assert all(verb == "apply" for verb, _, _ in api.writes)


def foreign(name: str = "chat") -> Json:
    return {"metadata": {"name": name, "namespace": "prod", "labels": {"team": "a"}}, "spec": {"podSelector": {}}}


async def test_an_object_of_somebody_elses_is_not_touched_and_told_once(api: Any) -> None:
    api.put(kinds.NETWORK_POLICY, foreign())
    keeper = Keeper(api)
    kept = await keeper.keep()
    assert api.objects[kinds.NETWORK_POLICY, "prod", "chat"]["spec"] == {"podSelector": {}}
    assert keeper.there() == ALL
    (problem,), (event,) = kept.problems, kept.events
    assert "NetworkPolicy chat exists in namespace prod" in problem
    assert (event.reason, event.warning) == (Reason.NAME_TAKEN, True)
    again = await keeper.keep()
    assert (len(again.problems), again.events) == (1, ())


async def test_the_leftover_of_a_deleted_resource_of_the_same_name_is_somebody_elses_until_it_is_gone(
    api: Any,
) -> None:
    await Keeper(api).keep(owner=replace(OWNER, uid="old"))
    keeper = Keeper(api)
    assert len((await keeper.keep()).problems) == 4
    api.objects.clear()  # by the garbage collector
    assert (await keeper.keep()).problems == ()
    assert keeper.there() == ALL


@pytest.mark.parametrize("verb", ["list", "apply"])
async def test_a_missing_right_for_one_kind_leaves_the_others_in_order(api: Any, verb: str) -> None:
    def refuse(of: str, kind: Any, name: str) -> ApiError | None:
        denied = (of, kind) == (verb, kinds.POD_DISRUPTION_BUDGET)
        return ApiError(403, "Forbidden", "no", "fake") if denied else None

    api.fail = refuse
    keeper = Keeper(api)
    kept = await keeper.keep()
    assert keeper.there() == ALL - {"PodDisruptionBudget chat-blue"}
    assert len(kept.problems) == (1 if verb == "apply" else 0)
    api.fail = lambda *_: None
    keeper.clock.now += timedelta(seconds=LISTED_SECONDS)
    await keeper.keep()
    assert keeper.there() == ALL


@pytest.mark.parametrize("status", [0, 429, 500, 503])
async def test_a_kind_that_cannot_be_read_for_a_moment_is_read_again_soon(api: Any, status: int) -> None:
    """A new kind's storage is set up while the first lists of it come: 429."""

    def refuse(of: str, kind: Any, name: str) -> ApiError | None:
        return ApiError(status, "Busy", "in a moment", "fake") if (of, kind) == ("list", kinds.POD_MONITOR) else None

    api.fail = refuse
    keeper = Keeper(api)
    assert len((await keeper.keep()).problems) == 1
    assert keeper.there() == ALL - {"PodMonitor chat"}
    api.fail = lambda *_: None
    keeper.clock.now += timedelta(seconds=UNREAD_SECONDS)
    assert (await keeper.keep()).problems == ()
    assert keeper.there() == ALL


async def test_a_wrong_memory_costs_one_pass(api: Any) -> None:
    keeper = Keeper(api)
    await keeper.keep(GREEN, previous=BLUE)
    budget = api.objects[kinds.POD_DISRUPTION_BUDGET, "prod", "chat-blue"]
    budget["metadata"]["uid"] = "made-anew"
    assert len((await keeper.keep(GREEN)).problems) == 1
    assert (await keeper.keep(GREEN)).problems == ()
    assert "PodDisruptionBudget chat-blue" not in keeper.there()


async def test_only_the_given_namespaces_are_read(api: Any) -> None:
    api.put(kinds.NETWORK_POLICY, foreign() | {"metadata": foreign()["metadata"] | {"namespace": "elsewhere"}})
    asked: list[str | None] = []
    listing = api.list_all

    async def noted(kind: Any, namespace: str | None, labels: Any = None) -> Any:
        asked.append(namespace)
        return await listing(kind, namespace, labels)

    api.list_all = noted
    await Keeper(api, namespaces=("prod",)).keep()
    assert set(asked) == {"prod"}


def test_every_companion_is_found_again_by_its_labels() -> None:
    for body in wanted(GREEN, BLUE).values():
        assert body["metadata"]["labels"][Label.MANAGED_BY] == "backstay"
        assert companions.resource_of(body) == "chat"
