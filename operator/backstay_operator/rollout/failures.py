"""Why a pod does not work: from the pod's own JSON to a reason, and whether waiting can cure it. Pure."""

from collections.abc import Mapping
from typing import Any

from backstay_contract import termination
from backstay_contract.reasons import Reason
from backstay_contract.termination import TERMINAL

from backstay_operator.rollout.observation import PodFailure

Json = Mapping[str, Any]

CRASH_LOOP_RESTARTS = 3
"""Restarts after which a container is said to crash again and again."""
MAX_MESSAGE = 512

_IMAGE_WAITING = {"ErrImagePull": False, "ImagePullBackOff": True, "InvalidImageName": True, "ErrImageNeverPull": True}
"""Waiting reasons of an image that does not come. The first try's error may be a registry's hiccup; the kubelet calls
it ImagePullBackOff once it has failed and will be tried ever more rarely."""
_CONFIG_WAITING = ("CreateContainerConfigError", "CreateContainerError", "RunContainerError")


def failure_of(pod: Json) -> PodFailure | None:
    """What is wrong with a pod, or None. The worst finding wins: a hard one before a soft one, then in pod order."""
    status: Json = pod.get("status") or {}
    if status.get("reason") == "Evicted":
        return _evicted(status)
    found = [
        failure
        for container in [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
        if (failure := _container(container)) is not None
    ]
    return max(found, key=lambda failure: failure.hard, default=None)


def unschedulable(pod: Json) -> str | None:
    """The scheduler's sentence, when no node has room for the pod."""
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if (condition.get("type"), condition.get("status")) == ("PodScheduled", "False"):
            return _cut(str(condition.get("message") or condition.get("reason") or "not scheduled"))
    return None


def _evicted(status: Json) -> PodFailure:
    message = str(status.get("message") or "the node evicted the pod")
    # A pod that is evicted for what it itself used up would be again; one that fled a node's pressure need not.
    own_fault = "ephemeral" in message.lower() or "emptydir" in message.lower()
    return PodFailure(Reason.EVICTED, _cut(message), hard=own_fault)


def _container(status: Json) -> PodFailure | None:
    state: Json = status.get("state") or {}
    name = str(status.get("name", ""))
    waiting: Json = state.get("waiting") or {}
    reason = str(waiting.get("reason", ""))
    if reason in _IMAGE_WAITING:
        message = _cut(f"{status.get('image', 'the image')}: {waiting.get('message') or reason}")
        return PodFailure(Reason.IMAGE_PULL_FAILED, message, hard=_IMAGE_WAITING[reason], container=name)
    if reason in _CONFIG_WAITING:
        # Not hard: a Secret or ConfigMap that is created a moment later than the pod cures it. The attempt's deadline
        # bounds the wait, and the message stands in the status from the first pass on.
        message = _cut(str(waiting.get("message") or reason))
        return PodFailure(Reason.POD_CONFIG_INVALID, message, hard=False, container=name)
    return _ended(status, name, state)


def _ended(status: Json, name: str, state: Json) -> PodFailure | None:
    """A container that ended, or that ended before and was started again."""
    now: Json = state.get("terminated") or {}
    if now and now.get("exitCode") == 0:
        return None  # an init container that did its work: what went wrong before is over
    before: Json = (status.get("lastState") or {}).get("terminated") or {}
    end = now or before
    if not end:
        return None
    restarts = int(status.get("restartCount") or 0)
    exit_code = int(end["exitCode"]) if "exitCode" in end else None
    if "OOMKilled" in (now.get("reason"), before.get("reason")):
        message = f"container {name} was killed for using more memory than its limit"
        return PodFailure(Reason.OOM_KILLED, message, hard=True, container=name, exit_code=exit_code)
    said = termination.read(str(end.get("message") or ""))
    if said is not None:
        hard = said.reason in TERMINAL or restarts >= CRASH_LOOP_RESTARTS
        return PodFailure(Reason(said.reason), _cut(said.message), hard=hard, container=name, exit_code=exit_code)
    message = f"container {name} ended with exit code {exit_code}"
    if end.get("reason") not in (None, "Error", "Completed"):
        message += f" ({end['reason']})"
    if end.get("message"):
        message += f": {end['message']}"
    hard = restarts >= CRASH_LOOP_RESTARTS
    if hard:
        message += f", restarted {restarts} times"
    if not hard and "running" in state and status.get("ready"):
        return None  # it ended once and works again
    return PodFailure(Reason.CRASH_LOOP, _cut(message), hard=hard, container=name, exit_code=exit_code)


def _cut(text: str) -> str:
    return text if len(text) <= MAX_MESSAGE else text[: MAX_MESSAGE - 1] + "…"
