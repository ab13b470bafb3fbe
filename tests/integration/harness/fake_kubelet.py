"""A node that only plays the kubelet: it takes the pods that the real scheduler binds to it and reports on them.

Its "containers" are FakeRuntimes that listen on real addresses inside the control plane's network namespace.
"""

import asyncio
import contextlib
import subprocess
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import httpx2
from aiohttp import web
from backstay_cluster.control_plane import ControlPlane
from backstay_contract import names, termination
from backstay_contract.names import Label, Port
from backstay_contract.termination import EXIT_CODES

from .api import Access
from .fake_runtime import HEALTHY, Behaviour, FakeRuntime
from .traffic import Traffic
from .watched import Name, Watched

Json = dict[str, Any]
NODE = "fake-node"
MERGE = {"Content-Type": "application/merge-patch+json"}


def stamp() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def running() -> Json:
    """The state of a container that runs."""
    return {"running": {"startedAt": stamp()}}


def ended(code: int, reason: str) -> Json:
    """The state of a container that ended."""
    return {"terminated": {"exitCode": code, "reason": reason, "startedAt": stamp(), "finishedAt": stamp()}}


def is_well(behaviour: Behaviour) -> bool:
    """Whether a pod with the behaviour becomes ready."""
    return not behaviour.unready and behaviour.waits is None and not behaviour.crashes


class FakeKubelet:
    """Runs in its own thread inside the namespace. `behaviours` is keyed by model version."""

    def __init__(self, plane: ControlPlane, access: Access) -> None:
        self.behaviours: dict[str, Behaviour] = {}
        self.runtimes: dict[str, FakeRuntime] = {}
        """Every pod that ever ran, by name."""
        self.running: dict[str, Json] = {}
        self.room: dict[str, str] = {}
        """What the node has otherwise than usual, by resource name."""
        self._plane = plane
        self._access = access
        self._stop = threading.Event()
        self._next_address = 1
        self._thread = threading.Thread(target=lambda: plane.inside(lambda: asyncio.run(self._main())), daemon=True)
        self._clients: dict[Name, Traffic] = {}
        self._pods = Watched("/api/v1/pods", {"fieldSelector": f"spec.nodeName={NODE}"}, lambda *_: None)
        ours = f"{Label.MANAGED_BY}={names.MANAGED_BY}"
        self._services = Watched("/api/v1/services", {"labelSelector": ours}, self._service_changed)
        self.errors: list[str] = []

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(timeout=20)

    @contextlib.contextmanager
    def traffic(self, namespace: str, name: str, per_second: float = 200.0) -> Iterator[Traffic]:
        """Clients of the Service NAME, as long as the block lasts."""
        key = (namespace, name)
        traffic = self._clients[key] = Traffic(per_second)
        try:
            yield traffic
        finally:
            del self._clients[key]

    def pods(self, name: str, colour: str, namespace: str | None = None) -> list[FakeRuntime]:
        """Running pods of a resource's colour; without a namespace in all of them."""
        return [
            self.runtimes[pod["metadata"]["name"]]
            for pod in list(self.running.values())
            if pod["metadata"]["labels"].get(Label.RESOURCE) == name
            and pod["metadata"]["labels"].get(Label.COLOUR) == colour
            and namespace in (None, pod["metadata"]["namespace"])
        ]

    async def _main(self) -> None:
        async with self._access.async_client() as api:
            await self._register(api)
            lives: dict[str, asyncio.Task[None]] = {}
            work = (self._beat(api), self._drive(), self._pods.follow(api), self._services.follow(api))
            tasks = [asyncio.create_task(one) for one in work]
            try:
                while not self._stop.is_set():
                    for pod in list(self._pods.objects.values()):
                        uid = pod["metadata"]["uid"]
                        if uid not in lives:
                            lives[uid] = asyncio.create_task(self._live(api, pod))
                    await asyncio.sleep(0.1)
            finally:
                for task in (*tasks, *lives.values()):
                    task.cancel()
                await asyncio.gather(*tasks, *lives.values(), return_exceptions=True)

    async def _register(self, api: httpx2.AsyncClient) -> None:
        await api.post("/api/v1/nodes", json={"metadata": {"name": NODE}})
        await self._node_status(api)

    async def _node_status(self, api: httpx2.AsyncClient) -> None:
        room = {"cpu": "64", "memory": "256Gi", "pods": "500", "ephemeral-storage": "500Gi"} | self.room
        ready = {
            "type": "Ready",
            "status": "True",
            "reason": "Fake",
            "message": "",
            "lastHeartbeatTime": stamp(),
            "lastTransitionTime": stamp(),
        }
        status = {"capacity": room, "allocatable": room, "conditions": [ready]}
        await ask(api, "PATCH", f"/api/v1/nodes/{NODE}/status", {"status": status})

    async def _beat(self, api: httpx2.AsyncClient) -> None:
        while True:
            await asyncio.sleep(2)
            await self._node_status(api)

    async def _live(self, api: httpx2.AsyncClient, pod: Json) -> None:
        try:
            await self._run(api, pod)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            self.errors.append(f"{pod['metadata']['name']}: {type(error).__name__}: {error}")

    async def _run(self, api: httpx2.AsyncClient, pod: Json) -> None:
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        env = {one["name"]: one["value"] for one in pod["spec"]["containers"][0]["env"]}
        behaviour = self.behaviours.get(env["BACKSTAY_MODEL_VERSION"], HEALTHY)
        address = self._address()
        if behaviour.gives_up is not None:
            await self._give_up(api, pod, behaviour.gives_up)
            return
        runtime = FakeRuntime(name, env, behaviour)
        self.runtimes[name] = runtime
        servers: list[web.AppRunner] = []
        try:
            await self._serve(runtime, address, servers)
            if await self._starts(namespace, name, behaviour.start_seconds):
                await self._report(api, namespace, name, address, behaviour)
                runtime.ready = is_well(behaviour)
                self.running[name] = pod
                await self._watch_over(api, namespace, name, runtime)
            await self._end(api, namespace, name, runtime)
        finally:
            self.running.pop(name, None)
            for server in servers:
                await server.cleanup()

    async def _starts(self, namespace: str, name: str, seconds: float) -> bool:
        """Whether the pod came through its start; False if it shall end before."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if not self._is_wanted(namespace, name):
                return False
            await asyncio.sleep(min(0.1, seconds))
        return True

    def _is_wanted(self, namespace: str, name: str) -> bool:
        pod = self._pod(namespace, name)
        return pod is not None and "deletionTimestamp" not in pod["metadata"]

    async def _watch_over(self, api: httpx2.AsyncClient, namespace: str, name: str, runtime: FakeRuntime) -> None:
        """Reports what becomes of the pod until it shall end."""
        reported = runtime.ready
        while self._is_wanted(namespace, name):
            most = runtime.behaviour.dies_after
            if most is not None and runtime.ok + runtime.errors >= most:
                reported = runtime.ready = False
                await self._kill(api, namespace, name)
            elif reported != runtime.ready or (runtime.ready and not is_shown_ready(self._pod(namespace, name))):
                reported = runtime.ready
                await self._patch(api, namespace, name, self._status("Running", reported, running()))
            await asyncio.sleep(0.1)

    def _address(self) -> str:
        number = self._next_address
        self._next_address += 1
        address = f"10.250.{number // 250}.{number % 250 + 1}"
        subprocess.run(["ip", "addr", "replace", f"{address}/32", "dev", "lo"], check=True)
        return address

    async def _serve(self, runtime: FakeRuntime, address: str, servers: list[web.AppRunner]) -> None:
        """Fills `servers`, also where it is cancelled between the two: who ends the pod ends all of them."""
        for app, port in ((runtime.app(), Port.HTTP), (runtime.control_app(), Port.CONTROL)):
            server = web.AppRunner(app)
            servers.append(server)
            await server.setup()
            await web.TCPSite(server, address, port).start()

    def _pod(self, namespace: str, name: str) -> Json | None:
        return self._pods.objects.get((namespace, name))

    async def _patch(self, api: httpx2.AsyncClient, namespace: str, name: str, status: Json) -> None:
        path = f"/api/v1/namespaces/{namespace}/pods/{name}/status"
        await ask(api, "PATCH", path, {"status": status})

    async def _report(
        self, api: httpx2.AsyncClient, namespace: str, name: str, address: str, behaviour: Behaviour
    ) -> None:
        ready, last = is_well(behaviour), None
        if behaviour.waits is not None:
            state = {"waiting": {"reason": behaviour.waits[0], "message": behaviour.waits[1]}}
        elif behaviour.crashes:
            state = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off restarting failed container"}}
            last = ended(1, "Error")
        else:
            state = running()
        status = self._status(
            "Running" if behaviour.waits is None else "Pending", ready, state, last, behaviour.crashes
        )
        await self._patch(api, namespace, name, status | {"podIP": address, "podIPs": [{"ip": address}]})

    def _status(self, phase: str, ready: bool, state: Json, last: Json | None = None, restarts: int = 0) -> Json:
        container = {
            "name": "serve",
            "ready": ready,
            "started": ready,
            "restartCount": restarts,
            "image": "fake",
            "imageID": "",
            "containerID": f"fake://{restarts}",
            "state": state,
            "lastState": last or {},
        }
        truth = "True" if ready else "False"
        kinds = ("Ready", "ContainersReady")
        conditions = [{"type": kind, "status": truth, "lastTransitionTime": stamp()} for kind in kinds]
        conditions.append({"type": "PodScheduled", "status": "True", "lastTransitionTime": stamp()})
        return {"phase": phase, "conditions": conditions, "containerStatuses": [container]}

    async def _kill(self, api: httpx2.AsyncClient, namespace: str, name: str) -> None:
        waiting = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}
        await self._patch(api, namespace, name, self._status("Running", False, waiting, ended(137, "OOMKilled"), 1))

    async def _give_up(self, api: httpx2.AsyncClient, pod: Json, said: termination.Termination) -> None:
        """The init container ends with the message, and is started again after a while."""
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        for restarts in range(100):
            end = {
                "exitCode": EXIT_CODES[said.reason],
                "reason": "Error",
                "message": termination.write(said),
                "startedAt": stamp(),
                "finishedAt": stamp(),
            }
            container = {
                "name": "pull",
                "ready": False,
                "restartCount": restarts,
                "image": "fake",
                "imageID": "",
                "state": {"waiting": {"reason": "CrashLoopBackOff"}} if restarts else {"terminated": end},
                "lastState": {"terminated": end} if restarts else {},
            }
            await self._patch(api, namespace, name, {"phase": "Pending", "initContainerStatuses": [container]})
            for _ in range(10):
                await asyncio.sleep(0.1)
                now = self._pod(namespace, name)
                if now is None:
                    return
                if "deletionTimestamp" in now["metadata"]:
                    await self._delete(api, namespace, name)
                    return

    async def _end(self, api: httpx2.AsyncClient, namespace: str, name: str, runtime: FakeRuntime) -> None:
        runtime.ready = False
        if self._pod(namespace, name) is None:
            return
        while runtime.in_flight:  # noqa: ASYNC110 - the test moves the clock of the request
            await asyncio.sleep(0.1)
        await self._delete(api, namespace, name)

    async def _delete(self, api: httpx2.AsyncClient, namespace: str, name: str) -> None:
        path = f"/api/v1/namespaces/{namespace}/pods/{name}"
        await ask(api, "DELETE", path, {"gracePeriodSeconds": 0})

    def _service_changed(self, key: Name, service: Json | None) -> None:
        """No selector that the Service ever had is missed, however short it was there."""
        traffic = self._clients.get(key)
        if traffic is not None:
            selector = (service or {}).get("spec", {}).get("selector") or {}
            traffic.selected(selector.get(Label.COLOUR))

    async def _drive(self) -> None:
        """Routes clients as kube-proxy would: to the ready pods that the Service's selector names."""
        while True:
            for key, traffic in list(self._clients.items()):
                service = self._services.objects.get(key)
                if service is not None:
                    traffic.tick(service["spec"].get("selector") or {}, self._matching(service))
            await asyncio.sleep(0.05)

    def _matching(self, service: Json) -> list[FakeRuntime]:
        selector = service["spec"].get("selector") or {}
        return [
            self.runtimes[pod["metadata"]["name"]]
            for pod in list(self.running.values())
            if pod["metadata"]["namespace"] == service["metadata"]["namespace"]
            and selector.items() <= pod["metadata"]["labels"].items()
            and self.runtimes[pod["metadata"]["name"]].ready
        ]


def is_shown_ready(pod: Json | None) -> bool:
    """Whether the API server has it as ready: the node controller takes that away while a node is not heard of."""
    conditions = (pod or {}).get("status", {}).get("conditions", ())
    return any((one["type"], one["status"]) == ("Ready", "True") for one in conditions)


async def ask(api: httpx2.AsyncClient, method: str, path: str, body: Json) -> None:
    """A request, again and again while the API server is away, as a kubelet does it. A refusal is an answer."""
    while True:
        try:
            await api.request(method, path, json=body, headers=MERGE if method == "PATCH" else None)
            return
        except httpx2.TransportError:
            await asyncio.sleep(0.5)
