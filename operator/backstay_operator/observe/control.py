"""What the pods say of themselves on their control port: mode, requests in flight, limits."""

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from backstay_contract.metric import MetricName
from backstay_contract.names import Port

from backstay_operator.http import Http, HttpError, host
from backstay_operator.rollout.observation import Pod


@dataclass(frozen=True, slots=True)
class Said:
    """One pod's answer."""

    mode: str
    in_flight: int
    limits: Mapping[MetricName, float] = field(default_factory=dict)
    """The resource's limits, else the manifest's, in the metrics' units."""


async def ask(http: Http, token: str, pods: Sequence[Pod]) -> dict[str, Said]:
    """The answers by pod name, all asked at once; a pod that does not answer, or not in this form, is left out."""
    asked = [pod for pod in pods if pod.ip is not None and not pod.terminating]
    answers = await asyncio.gather(*(_one(http, token, pod) for pod in asked))
    return {pod.name: answer for pod, answer in zip(asked, answers, strict=True) if answer is not None}


async def _one(http: Http, token: str, pod: Pod) -> Said | None:
    try:
        url = f"http://{host(pod.ip or '')}:{Port.CONTROL}/control/state"
        answer = await http.ask("GET", url, headers={"Authorization": f"Bearer {token}"})
        return parse(answer.json()) if answer.status == 200 else None
    except HttpError:
        return None


def parse(body: Any) -> Said | None:
    """The answer's JSON, or None where it has another form."""
    if not isinstance(body, dict):
        return None
    mode, in_flight, limits = body.get("mode"), body.get("inFlight"), body.get("limits") or {}
    if not isinstance(mode, str) or not isinstance(in_flight, int) or isinstance(in_flight, bool) or in_flight < 0:
        return None
    if not isinstance(limits, dict):
        return None
    known = {MetricName(name): limit for name, limit in limits.items() if name in set(MetricName) and _is_limit(limit)}
    return Said(mode, in_flight, known)


def _is_limit(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value > 0


def common_limits(answers: Sequence[Said]) -> Mapping[MetricName, float] | None:
    """The limits that all pods agree on; None where none answered, or where they differ."""
    if not answers or any(answer.limits != answers[0].limits for answer in answers):
        return None
    return answers[0].limits
