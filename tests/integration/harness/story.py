"""One ModelDeployment as a test tells it: what is asked for, what is waited for, what is there."""

import contextlib
import hashlib
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
from backstay_contract import names

from .api import MDEPS, Json, done, patch
from .fake_kubelet import FakeKubelet
from .fake_runtime import Behaviour, FakeRuntime
from .operator_process import OperatorProcess
from .traffic import Traffic

NAME = "chat"
COLOURS = ("blue", "green")


def digest(version: str) -> str:
    return "sha256:" + hashlib.sha256(version.encode()).hexdigest()


def model(version: str) -> Json:
    return {
        "name": "chat",
        "version": version,
        "uri": f"s3://models/chat/{version}",
        "sha256": digest(version),
        "storage": {"endpoint": "http://minio.minio.svc:9000", "secretRef": {"name": "models-reader"}},
    }


class Story:
    """Helpers around one resource in its own namespace."""

    def __init__(
        self,
        client: httpx2.Client,
        namespace: str,
        kubelet: FakeKubelet,
        operator: OperatorProcess,
        name: str = NAME,
    ) -> None:
        self.client = client
        self.namespace = namespace
        self.kubelet = kubelet
        self.operator = operator
        self.name = name
        self.path = f"{MDEPS.format(namespace=namespace)}/{name}"
        self.clients: list[Traffic] = []
        """All that ever asked the active Service."""

    def create(self, version: str, replicas: int = 2, **rollout: Any) -> None:
        soak = {"minSeconds": 1, "maxSeconds": 60, "intervalSeconds": 0.4, **rollout.pop("soak", {})}
        body = {
            "apiVersion": names.API_VERSION,
            "kind": names.KIND,
            "metadata": {"name": self.name, "namespace": self.namespace},
            "spec": {
                "model": model(version),
                "replicas": replicas,
                "baselines": {"p99LatencyMs": {"value": 100, "tolerance": 2}, "errorRate": {"value": 0.01}},
                "rollout": {"scaleDownDelaySeconds": 1, "drainTimeoutSeconds": 30, **rollout, "soak": soak},
            },
        }
        done(self.client.post(MDEPS.format(namespace=self.namespace), json=body))

    def behave(self, version: str, **how: Any) -> None:
        self.kubelet.behaviours[version] = Behaviour(**how)

    def edit(self, **spec: Any) -> None:
        patch({"spec": spec}, self.client, self.path)

    def ask_for(self, version: str) -> None:
        self.edit(model=model(version))

    def annotate(self, **annotations: str) -> None:
        patch({"metadata": {"annotations": annotations}}, self.client, self.path)

    def select(self, colour: str) -> None:
        """Somebody else's hand on the Service."""
        path = f"/api/v1/namespaces/{self.namespace}/services/{self.name}"
        patch({"spec": {"selector": {names.Label.COLOUR: colour}}}, self.client, path)

    def pause(self, seconds: float) -> None:
        """Time in which something must *not* happen."""
        time.sleep(seconds)

    @contextlib.contextmanager
    def without_validation(self) -> Iterator[None]:
        """The schema of the uri is dropped for a while: as if an older CRD had let another one in."""
        crd = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{names.PLURAL}.{names.GROUP}"
        uri = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/model/properties/uri/pattern"
        pattern: Any = done(self.client.get(crd))
        for part in uri.strip("/").split("/"):
            pattern = pattern[int(part) if part.isdigit() else part]
        patch([{"op": "remove", "path": uri}], self.client, crd, "json-patch")
        time.sleep(2)  # the API server takes a moment to serve by the new schema
        try:
            yield
        finally:
            patch([{"op": "add", "path": uri, "value": pattern}], self.client, crd, "json-patch")
            time.sleep(2)

    def get(self) -> Json:
        return done(self.client.get(self.path))

    def status(self) -> Json:
        status: Json = self.get().get("status") or {}
        return status

    def condition(self, kind: str) -> tuple[str, str]:
        """Status and reason of a condition; two empty words where it is not there."""
        found = (one for one in self.status().get("conditions", ()) if one["type"] == kind)
        return next(((one["status"], one["reason"]) for one in found), ("", ""))

    def told(self) -> list[str]:
        """The reasons of the events about the resource."""
        return [event["reason"] for event in self.events()]

    def wait_until_rejected(self, version: str, seconds: float = 30) -> Json:
        """The version's rejection, once it is recorded."""

        def entries() -> list[Json]:
            return [one for one in self.status().get("rejected", ()) if one["version"] == version]

        self.wait(f"the rejection of {version}", lambda: bool(entries()), seconds)
        return entries()[-1]

    def child(self, plural: str, name: str) -> Json | None:
        group = "/apis/apps/v1" if plural == "deployments" else "/api/v1"
        response = self.client.get(f"{group}/namespaces/{self.namespace}/{plural}/{name}")
        return None if response.status_code == 404 else done(response)

    def deployment(self, colour: str) -> Json | None:
        return self.child("deployments", f"{self.name}-{colour}")

    def replicas(self, colour: str) -> int:
        deployment = self.deployment(colour)
        return 0 if deployment is None else int(deployment["spec"]["replicas"])

    def selector(self, name: str | None = None) -> str:
        service = self.child("services", name or self.name)
        return "" if service is None else str(service["spec"]["selector"].get(names.Label.COLOUR))

    def pods(self, colour: str) -> list[FakeRuntime]:
        """The colour's running pods."""
        return self.kubelet.pods(self.name, colour, self.namespace)

    @contextlib.contextmanager
    def traffic(self, per_second: float = 200.0) -> Iterator[Traffic]:
        """Clients of the active Service, as long as the block lasts."""
        with self.kubelet.traffic(self.namespace, self.name, per_second) as traffic:
            self.clients.append(traffic)
            yield traffic

    def events(self) -> list[Json]:
        """Events about the resource."""
        path = f"/apis/events.k8s.io/v1/namespaces/{self.namespace}/events"
        about = (names.KIND, self.name)
        found = done(self.client.get(path))["items"]
        return [event for event in found if (event["regarding"]["kind"], event["regarding"]["name"]) == about]

    def children(self) -> list[str]:
        """Everything of the resource that is left in the namespace."""
        left = []
        for path in ("/apis/apps/v1/{}/deployments", "/apis/apps/v1/{}/replicasets", "/api/v1/{}/services",
                     "/api/v1/{}/pods", "/apis/discovery.k8s.io/v1/{}/endpointslices"):  # fmt: skip
            items = done(self.client.get(path.format(f"namespaces/{self.namespace}")))["items"]
            left += [f"{path.rpartition('/')[2]}/{item['metadata']['name']}" for item in items]
        return left

    def wait(self, what: str, until: Callable[[], bool], seconds: float = 30) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if until():
                return
            time.sleep(0.1)
        raise AssertionError(f"{what} did not come within {seconds:g} s\n{self.report()}")

    def wait_for(self, seconds: float = 30, **wanted: Any) -> Json:
        """Waits until the status has these fields."""
        self.wait(
            f"status {wanted}",
            lambda: {k: v for k, v in self.status().items() if k in wanted} == wanted,
            seconds,
        )
        return self.status()

    def kill_operator_in(self, phase: str, since: str, seconds: int = 40) -> None:
        """Kills the operator as soon as the status shows the phase. A watch sees phases that last a moment only; it
        begins at the resource version `since`."""
        query = {
            "watch": "true",
            "fieldSelector": f"metadata.name={self.name}",
            "resourceVersion": since,
            "timeoutSeconds": str(seconds),
        }
        path = MDEPS.format(namespace=self.namespace)
        with self.client.stream("GET", path, params=query, timeout=seconds + 5) as answer:
            for line in answer.iter_lines():
                if (json.loads(line)["object"].get("status") or {}).get("phase") == phase:
                    self.operator.kill()
                    return
        raise AssertionError(f"phase {phase} did not come within {seconds} s\n{self.report()}")

    def wait_until_serving(self, version: str, seconds: float = 40) -> Json:
        """The version serves and no attempt is open."""

        def rests() -> bool:
            status = self.status()
            attempt = status.get("attempt") or {}
            active = status.get("active") or {}
            return status.get("phase") == "Serving" and active.get("version") == version and "endedAt" in attempt

        self.wait(f"{version} serving", rests, seconds)
        return self.status()

    def wait_until_at_rest(self, seconds: float = 30) -> None:
        """Only the active colour has pods, and nothing selects the other."""

        def rests() -> bool:
            active = self.selector()
            other = "green" if active == "blue" else "blue"
            return self.replicas(other) == 0 and not self.pods(other)

        self.wait("one colour at rest", rests, seconds)

    def report(self) -> str:
        log = self.operator.log.read_text()[-6000:] if self.operator.log.exists() else ""
        body = self.client.get(self.path)
        status = json.dumps(body.json().get("status"), indent=1)[:3000] if body.is_success else body.text
        return f"status: {status}\nchildren: {self.children()}\noperator:\n{log}"

    def delete(self) -> None:
        self.client.delete(self.path)

    def end(self) -> None:
        """Lets the resource go, whatever the test left."""
        self.operator.kill()
        if self.client.get(self.path).status_code == 200:
            patch({"metadata": {"finalizers": None}}, self.client, self.path)
            self.delete()
