"""What stands beside a resource's pods: disruption budgets, a network policy, monitoring. Pure.

None of it decides what serves, so a pass keeps it in order after everything that does.
"""

from collections.abc import Iterable
from typing import NamedTuple

from backstay_contract.base import Document
from backstay_contract.names import Label
from backstay_contract.resource import ModelDeploymentSpec, NetworkPolicyMode
from backstay_contract.status import Colour, ModelDeploymentStatus

from backstay_operator import kinds
from backstay_operator.desired import alerts, disruption, monitoring, network
from backstay_operator.desired.common import Json, Owner
from backstay_operator.kinds import Kind

OPTIONAL = (kinds.POD_MONITOR, kinds.PROMETHEUS_RULE)
"""Kinds that a cluster may lack: those of the Prometheus operator."""


class Choice(Document):
    """Which companions the operator was installed to make; None: not this one."""

    disruption_budget: disruption.Settings | None = disruption.Settings()
    network_policy: network.Settings | None = None
    """Needs to know where the operator itself runs, so there is no default."""
    pod_monitor: monitoring.Settings | None = None
    prometheus_rule: alerts.Settings | None = None

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds that are looked after, chosen or not: what is not chosen any more is removed."""
        return (kinds.POD_DISRUPTION_BUDGET, kinds.NETWORK_POLICY, *OPTIONAL)


DEFAULT_CHOICE = Choice()


class Companion(NamedTuple):
    """One wanted object."""

    kind: Kind
    body: Json


def wanted(
    owner: Owner, spec: ModelDeploymentSpec, status: ModelDeploymentStatus, active: Colour | None, choice: Choice
) -> tuple[Companion, ...]:
    """The companions of a resource. `active` is the colour that its Service selects after the pass."""
    return tuple(_wanted(owner, spec, status, active, choice))


def _wanted(
    owner: Owner, spec: ModelDeploymentSpec, status: ModelDeploymentStatus, active: Colour | None, choice: Choice
) -> Iterable[Companion]:
    if choice.disruption_budget is not None:
        for colour in disruption.protected(active, status):
            yield Companion(kinds.POD_DISRUPTION_BUDGET, disruption.budget(owner, colour, choice.disruption_budget))
    if choice.network_policy is not None and spec.network_policy is NetworkPolicyMode.MANAGED:
        yield Companion(kinds.NETWORK_POLICY, network.policy(owner, choice.network_policy))
    if choice.pod_monitor is not None:
        yield Companion(kinds.POD_MONITOR, monitoring.pod_monitor(owner, choice.pod_monitor))
    if choice.prometheus_rule is not None:
        limits = alerts.limits_of(spec, status)
        yield Companion(kinds.PROMETHEUS_RULE, alerts.rule(owner, limits, choice.prometheus_rule))


def is_as_wanted(live: Json, body: Json) -> bool:
    """Whether a live object has all that is wanted. What the API server or somebody else added beside it is left."""
    labels = live["metadata"].get("labels") or {}
    return body["metadata"]["labels"].items() <= labels.items() and _holds(live.get("spec"), body["spec"])


def _holds(live: object, wanted: object) -> bool:
    if isinstance(wanted, dict) and wanted:
        return isinstance(live, dict) and all(key in live and _holds(live[key], one) for key, one in wanted.items())
    if isinstance(wanted, list):
        return (
            isinstance(live, list)
            and len(live) == len(wanted)
            and all(_holds(found, one) for found, one in zip(live, wanted, strict=True))
        )
    return live == wanted  # an empty selector means everything, so nothing may stand in it


def resource_of(live: Json) -> str:
    """Name of the resource that a live companion stands beside; empty where it is none of ours."""
    return str((live["metadata"].get("labels") or {}).get(Label.RESOURCE, ""))
