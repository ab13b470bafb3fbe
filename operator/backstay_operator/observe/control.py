"""What the pods say of themselves on their control port: mode, requests in flight, limits."""

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from backstay_contract.metric import MetricName
from backstay_contract.names import Port
from backstay_judge import EvaluatedItem

from backstay_operator.http import Http, HttpError, host
from backstay_operator.rollout.observation import Evaluation, Pod

MAX_PROBLEM = 300


@dataclass(frozen=True, slots=True)
class Said:
    """One pod's answer."""

    mode: str
    in_flight: int
    limits: Mapping[MetricName, float] = field(default_factory=dict)
    """The resource's limits, else the manifest's, in the metrics' units."""
    evaluation: Evaluation = field(default_factory=Evaluation)
    """How far it is; the losses themselves are asked for apart."""


async def ask(http: Http, token: str, pods: Sequence[Pod]) -> dict[str, Said]:
    """The answers by pod name, all asked at once; a pod that does not answer, or not in this form, is left out."""
    asked = [pod for pod in pods if pod.ip is not None and not pod.terminating]
    answers = await asyncio.gather(*(_one(http, token, pod) for pod in asked))
    return {pod.name: answer for pod, answer in zip(asked, answers, strict=True) if answer is not None}


async def evaluations(http: Http, token: str, pods: Sequence[Pod], said: Mapping[str, Said]) -> dict[str, Evaluation]:
    """What the pods that answered say of their evaluation set, with each text's loss where a round is over."""
    told = [pod for pod in pods if pod.name in said]
    answers = await asyncio.gather(*(_losses(http, token, pod, said[pod.name].evaluation) for pod in told))
    return {pod.name: answer for pod, answer in zip(told, answers, strict=True)}


async def _losses(http: Http, token: str, pod: Pod, known: Evaluation) -> Evaluation:
    if known.rounds == 0:
        return known
    try:
        answer = await http.ask("GET", _url(pod, "evaluation"), headers=_bearer(token))
        found = parse_losses(answer.json()) if answer.status == 200 else None
    except HttpError:
        found = None
    return known if found is None else replace(known, found=found)


def _url(pod: Pod, what: str) -> str:
    return f"http://{host(pod.ip or '')}:{Port.CONTROL}/control/{what}"


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def _one(http: Http, token: str, pod: Pod) -> Said | None:
    try:
        answer = await http.ask("GET", _url(pod, "state"), headers=_bearer(token))
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
    return Said(mode, in_flight, known, parse_evaluation(body.get("evaluation")))


def parse_evaluation(body: Any) -> Evaluation:
    """How far a pod's evaluation is. An image of a runtime that has none says nothing, which is an empty set."""
    if not isinstance(body, dict):
        return Evaluation()
    items, done, rounds = (_count(body.get(name)) for name in ("items", "done", "rounds"))
    return Evaluation(items, done, rounds, problem=str(body.get("problem") or "")[:MAX_PROBLEM])


def parse_losses(body: Any) -> tuple[EvaluatedItem, ...] | None:
    """The losses of a whole round, null for one that is not a number; None where the answer has another form."""
    found = body.get("found") if isinstance(body, dict) else None
    if not isinstance(found, list):
        return None
    try:
        return tuple(
            EvaluatedItem(
                float(item["recordedNll"]),
                math.nan if item["nll"] is None else float(item["nll"]),
                _tokens(item["tokens"]),
            )
            for item in found
        )
    except (KeyError, TypeError, ValueError):
        return None


def _tokens(value: Any) -> int:
    if _count(value) == 0:
        raise ValueError(f"tokens: {value!r} is no number of predicted tokens")
    return int(value)


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0


def _is_limit(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value > 0


def common_limits(answers: Sequence[Said]) -> Mapping[MetricName, float] | None:
    """The limits that all pods agree on; None where none answered, or where they differ."""
    if not answers or any(answer.limits != answers[0].limits for answer in answers):
        return None
    return answers[0].limits
