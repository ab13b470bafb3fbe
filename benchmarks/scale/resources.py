"""Many small ModelDeployments."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import httpx2
from backstay_contract import names

from benchmarks.scale.plane import Plane
from tests.integration.harness.api import MDEPS, done
from tests.integration.harness.story import model

Json = dict[str, Any]
NAMESPACES = 10
AT_A_TIME = 16
UNWATCHED: Json = {"rollback": {"afterVerified": "Ignore"}}


def namespace_of(number: int) -> str:
    return f"scale-{number % NAMESPACES}"


def name_of(number: int) -> str:
    return f"model-{number}"


def path_of(number: int) -> str:
    return f"{MDEPS.format(namespace=namespace_of(number))}/{name_of(number)}"


def body(number: int) -> Json:
    """One pod. Nobody asks it anything, so it serves unverified, and is looked at every 30 s."""
    soak = {"minSeconds": 1, "maxSeconds": 2, "intervalSeconds": 1, "onInsufficientData": "Promote"}
    resources = {"requests": {"cpu": "10m", "memory": "16Mi"}}
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": {"name": name_of(number), "namespace": namespace_of(number)},
        "spec": {
            "model": model("1.0.0"),
            "replicas": 1,
            "baselines": {"errorRate": {"value": 0.01}},
            "serving": {"resources": resources},
            "rollout": {"soak": soak, "scaleDownDelaySeconds": 1},
        },
    }


def create(plane: Plane, numbers: range) -> None:
    """Applies them all, some at a time."""
    _each(plane, numbers, lambda client, number: client.post(_all_in(number), json=body(number), timeout=60))


def edit(plane: Plane, numbers: range, spec: Json) -> None:
    """Changes all their specs, some at a time."""
    kind = {"Content-Type": "application/merge-patch+json"}
    change = {"spec": spec}
    _each(plane, numbers, lambda client, number: client.patch(path_of(number), json=change, headers=kind, timeout=60))


def _all_in(number: int) -> str:
    return MDEPS.format(namespace=namespace_of(number))


def _each(plane: Plane, numbers: range, ask: Callable[[httpx2.AsyncClient, int], Awaitable[httpx2.Response]]) -> None:
    async def main() -> None:
        gate = asyncio.Semaphore(AT_A_TIME)
        async with plane.access.async_client() as client:

            async def one(number: int) -> None:
                async with gate:
                    done(await ask(client, number))

            await asyncio.gather(*(one(number) for number in numbers))

    asyncio.run(main())


def phases(client: httpx2.Client) -> dict[str, int]:
    """How many resources are in each phase."""
    found: dict[str, int] = {}
    path, more = f"/apis/{names.API_VERSION}/{names.PLURAL}", ""
    while True:
        page = done(client.get(path, params={"limit": 250, **({"continue": more} if more else {})}, timeout=60))
        for item in page["items"]:
            phase = (item.get("status") or {}).get("phase", "")
            found[phase] = found.get(phase, 0) + 1
        more = page["metadata"].get("continue") or ""
        if not more:
            return found
