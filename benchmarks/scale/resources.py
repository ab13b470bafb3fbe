"""Many small ModelDeployments."""

import asyncio
from typing import Any

import httpx2
from backstay_contract import names

from benchmarks.scale.plane import Plane
from tests.integration.harness.api import MDEPS, done
from tests.integration.harness.story import model

Json = dict[str, Any]
NAMESPACES = 10
AT_A_TIME = 16
WATCHED: Json = {
    "baselines": {"errorRate": {"value": 0.01}},
    "rollout": {
        "scaleDownDelaySeconds": 1,
        "soak": {"minSeconds": 1, "maxSeconds": 2, "intervalSeconds": 1, "onInsufficientData": "Promote"},
    },
}
"""Nobody asks them anything, so they serve unverified, and are looked at every 30 s."""


def namespace_of(number: int) -> str:
    return f"scale-{number % NAMESPACES}"


def name_of(number: int) -> str:
    return f"model-{number}"


def path_of(number: int) -> str:
    return f"{MDEPS.format(namespace=namespace_of(number))}/{name_of(number)}"


def body(number: int, **spec: Any) -> Json:
    """One pod, and nothing to be judged by, so that its soak is over at once."""
    soak = {"minSeconds": 1, "maxSeconds": 30, "intervalSeconds": 1}
    resources = {"requests": {"cpu": "10m", "memory": "16Mi"}}
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": {"name": name_of(number), "namespace": namespace_of(number)},
        "spec": {
            "model": model("1.0.0"),
            "replicas": 1,
            "serving": {"resources": resources},
            "rollout": {"soak": soak, "scaleDownDelaySeconds": 1},
            **spec,
        },
    }


def create(plane: Plane, numbers: range, **spec: Any) -> None:
    """Applies them all, some at a time."""

    async def main() -> None:
        gate = asyncio.Semaphore(AT_A_TIME)
        async with plane.access.async_client() as client:

            async def one(number: int) -> None:
                async with gate:
                    path = MDEPS.format(namespace=namespace_of(number))
                    done(await client.post(path, json=body(number, **spec), timeout=60))

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
