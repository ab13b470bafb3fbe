"""Samples from the pods' own /metrics, all at once: used where no Prometheus is configured, or it is away."""

import asyncio
from collections.abc import Callable, Sequence

from backstay_contract.names import Port
from backstay_judge import Sample

from backstay_operator.evidence import exposition
from backstay_operator.http import Http, HttpError, host
from backstay_operator.rollout.observation import Pod


async def samples(
    http: Http, pods: Sequence[Pod], clock: Callable[[], float]
) -> tuple[tuple[Sample, ...], tuple[str, ...]]:
    """The samples of the pods that answered, and what was wrong with the others."""
    answers = await asyncio.gather(*(_one(http, pod, clock) for pod in pods))
    found = tuple(sample for answer in answers if not isinstance(answer, str) for sample in answer)
    return found, tuple(answer for answer in answers if isinstance(answer, str))


async def _one(http: Http, pod: Pod, clock: Callable[[], float]) -> tuple[Sample, ...] | str:
    if pod.ip is None:
        return f"pod {pod.name}: has no address yet"
    at = clock()
    try:
        answer = await http.ask("GET", f"http://{host(pod.ip)}:{Port.HTTP}/metrics")
        if answer.status != 200:
            return f"pod {pod.name}: /metrics answered {answer.status}"
        return exposition.samples(answer.body.decode(), pod.name, at)
    except HttpError as error:
        return f"pod {pod.name}: /metrics: {error}"
    except ValueError as error:
        return f"pod {pod.name}: /metrics is no exposition: {str(error)[:120]}"
