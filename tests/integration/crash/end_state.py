"""What a rollout leaves behind, without what may differ between two runs that went the same way: times, uids, texts."""

from typing import Any

from tests.integration.crash.plays import Play
from tests.integration.harness.story import COLOURS, Story
from tests.integration.harness.traffic import Traffic

State = dict[str, Any]


def of(story: Story, play: Play, traffic: Traffic) -> State:
    """The end state of a resource that serves."""
    status = story.status()
    attempt = status.get("attempt") or {}
    return {
        "phase": status.get("phase"),
        "reason": status.get("reason"),
        "selector": story.selector(),
        "preview": story.selector(f"{story.name}-preview"),
        "digests": {colour: _digest(story, colour) for colour in COLOURS},
        "replicas": {colour: story.replicas(colour) for colour in COLOURS},
        "pods": {colour: len(story.pods(colour)) for colour in COLOURS},
        "modes": {colour: sorted(pod.mode for pod in story.pods(colour)) for colour in COLOURS},
        "active": _side(status.get("active")),
        "candidate": _side(status.get("candidate")),
        "previous": _side(status.get("previous")),
        "attempts": status.get("attempts"),
        "attempt": {key: attempt.get(key) for key in ("id", "version", "colour", "outcome")},
        "rejected": [
            _only(one, "version", "attempt", "reason", "metric", "limit") for one in status.get("rejected", ())
        ],
        "history": [_only(one, "version", "revision", "verified", "reason") for one in status.get("history", ())],
        "returning": _only(status.get("returning") or {}, "to", "reason"),
        "degraded": _only(status.get("degraded") or {}, "revision", "reason"),
        "conditions": {one["type"]: (one["status"], one["reason"]) for one in status.get("conditions", ())},
        "children": sorted(name for name in story.children() if _named_by_us(name)),
        "versions": traffic.versions,
        "clients lost requests": traffic.lost > 0 and not play.interrupts,
        "selected nothing": None in traffic.selectors,
    }


def of_the_deleted(story: Story) -> State:
    """What is left of a resource that was deleted."""
    return {"resource": story.client.get(story.path).status_code, "children": story.children()}


def difference(wanted: State, seen: State) -> str:
    """The fields in which two end states differ; empty where they are equal."""
    fields = [key for key in wanted.keys() | seen.keys() if wanted.get(key) != seen.get(key)]
    return "; ".join(f"{key}: {wanted.get(key)} != {seen.get(key)}" for key in sorted(fields))


def _digest(story: Story, colour: str) -> str:
    pods = story.pods(colour)
    return pods[0].digest if pods else ""


def _side(side: dict[str, Any] | None) -> dict[str, Any] | None:
    return None if side is None else _only(side, "colour", "version", "digest", "ready", "replicas")


def _only(body: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: body.get(key) for key in keys if key in body}


def _named_by_us(child: str) -> bool:
    """Pods, replica sets and endpoint slices have names with something random in them."""
    return not child.startswith(("pods/", "replicasets/", "endpointslices/"))
