"""What was seen of the resource and its Service, and when. Pure; times are Unix seconds of the one machine's clock."""

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from backstay_contract.names import Label

Wanted = Callable[[dict[str, Any]], bool]
"""A question to a status."""


@dataclass(frozen=True)
class Seen:
    """An object as a watch showed it."""

    at: float
    object: dict[str, Any]


@dataclass(frozen=True)
class Flip:
    """The Service's selector moved to another colour."""

    at: float
    colour: str


def flips(services: Sequence[Seen]) -> list[Flip]:
    """Each change of the active Service's selector, the first colour included."""
    found: list[Flip] = []
    for seen in services:
        colour = str(seen.object["spec"].get("selector", {}).get(Label.COLOUR, ""))
        if not found or found[-1].colour != colour:
            found.append(Flip(seen.at, colour))
    return found


def flip_after(services: Sequence[Seen], since: float) -> Flip | None:
    """The first change of the selector after that time."""
    return next((flip for flip in flips(services)[1:] if flip.at >= since), None)


def first(resources: Sequence[Seen], since: float, **wanted: object) -> Seen | None:
    """The first sight after `since` whose status has these values; a nested field is written `attempt__id`."""
    return next((seen for seen in resources if seen.at >= since and matches(seen.object, wanted)), None)


def matches(resource: dict[str, Any], wanted: dict[str, object]) -> bool:
    """Whether the resource's status has all these values."""
    return all(_field(resource.get("status", {}), name) == value for name, value in wanted.items())


def _field(document: Any, name: str) -> object:
    for part in name.split("__"):
        if not isinstance(document, dict):
            return None
        document = document.get(part)
    return document


def moment(text: str) -> float:
    """Unix seconds of a time as Kubernetes writes it."""
    return datetime.datetime.fromisoformat(text).timestamp()


@dataclass(frozen=True)
class PodTimes:
    """How long a serving pod took, as the kubelet tells it: whole seconds."""

    pull_s: float
    load_s: float
    """From the serving container's start to ready."""


def pod_times(pod: dict[str, Any]) -> PodTimes | None:
    """None while the pod is not ready yet."""
    status = pod.get("status", {})
    pulls = [c["state"].get("terminated") for c in status.get("initContainerStatuses", [])]
    serves = [c["state"].get("running") for c in status.get("containerStatuses", [])]
    ready = [c for c in status.get("conditions", []) if c["type"] == "Ready" and c["status"] == "True"]
    if not (pulls and pulls[0] and serves and serves[0] and ready):
        return None
    return PodTimes(
        moment(pulls[0]["finishedAt"]) - moment(pulls[0]["startedAt"]),
        moment(ready[0]["lastTransitionTime"]) - moment(serves[0]["startedAt"]),
    )
