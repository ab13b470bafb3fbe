"""The last log lines of a container that failed, for the status."""

import asyncio
from dataclasses import replace

from backstay_operator.client import ApiError, Client
from backstay_operator.rollout.observation import Pod

LINES = 10
BYTES = 1024
SECONDS = 2.0
"""For one pod's log as a whole: a kubelet that is away with its node must not delay the way back."""


async def with_log_tail(client: Client, namespace: str, pod: Pod) -> Pod:
    """The pod with its failure's last log lines; unchanged where there is no failure, or no log."""
    failure = pod.failure
    if failure is None or failure.container is None:
        return pod
    try:
        async with asyncio.timeout(SECONDS):
            tail = await _tail(client, namespace, pod.name, failure.container)
    except TimeoutError:
        return pod
    return replace(pod, failure=replace(failure, log_tail=tail)) if tail else pod


async def _tail(client: Client, namespace: str, pod: str, container: str) -> str:
    """The run that ended comes first: the present one may only just have begun."""
    for previous in (True, False):
        try:
            tail = await client.log_tail(namespace, pod, container, lines=LINES, limit_bytes=BYTES, previous=previous)
        except ApiError:
            continue  # no such run, or the kubelet is away: the reason stands without its log
        if tail.strip():
            return tail
    return ""


async def with_log_tails(client: Client, namespace: str, pods: tuple[Pod, ...]) -> tuple[Pod, ...]:
    return tuple(await asyncio.gather(*(with_log_tail(client, namespace, pod) for pod in pods)))
