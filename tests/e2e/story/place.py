"""Where the story takes place: the project's own node, or a cluster that the user's kubeconfig names."""

import base64
import contextlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import yaml
from backstay_cluster import execution, images, node
from backstay_cluster.cluster import Cluster, recorded, run_root
from backstay_cluster.control_plane import stop
from backstay_cluster.progress import Progress

from tests.e2e.story import settings
from tests.e2e.story.kube import Json, Kube, KubectlError

OPERATOR_IMAGE = "BACKSTAY_OPERATOR_IMAGE"
RUNTIME_IMAGE = "BACKSTAY_RUNTIME_IMAGE"
MINIO_IMAGE = "BACKSTAY_MINIO_IMAGE"
OWN_NODE = "BACKSTAY_DEMO_NODE"
"""Set: the demo starts its own node even where a kubeconfig answers."""
PUBLIC_MINIO = "quay.io/minio/minio:latest"

GIVEN_CLUSTER = f"""\
Your kubeconfig's context {{context!r}} answers, so the demo would run there. It needs images that it can pull:

  docker build -f Dockerfile.operator -t REGISTRY/backstay-operator . && docker push REGISTRY/backstay-operator
  docker build -f Dockerfile.runtime -t REGISTRY/backstay-runtime . && docker push REGISTRY/backstay-runtime
  {OPERATOR_IMAGE}=REGISTRY/backstay-operator {RUNTIME_IMAGE}=REGISTRY/backstay-runtime make demo

With kind, `kind load docker-image` takes the place of the push. To leave that cluster alone and use a node of this
machine: {OWN_NODE}=1 make demo"""


class DemoError(Exception):
    """The story cannot go on; the message names what failed and what to do about it."""


class Storage(NamedTuple):
    """The object storage as this machine reaches it."""

    endpoint: str
    wrap: Callable[[list[str]], list[str]]
    """Turns a command line into one that reaches the endpoint."""
    environment: Mapping[str, str]
    """Variables with the keys."""


@dataclass(frozen=True)
class Place:
    """A cluster that is ready for the story."""

    kube: Kube
    operator_image: str
    runtime_image: str
    cluster: Cluster | None = None
    """The project's own node; None on a cluster of the user's."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Further variables of the operator."""

    @contextlib.contextmanager
    def storage(self) -> Iterator[Storage]:
        """The object storage, for as long as the block runs."""
        keys = self.storage_keys()
        environment = {**os.environ, "BACKSTAY_ACCESS_KEY": keys["accessKey"], "BACKSTAY_SECRET_KEY": keys["secretKey"]}
        if self.cluster is not None:
            yield Storage(settings.STORAGE, self._inside, environment)
            return
        with _forwarded(self.kube, "minio", "service/minio", 9000) as port:
            yield Storage(f"http://127.0.0.1:{port}", list, environment)

    def storage_keys(self) -> dict[str, str]:
        """accessKey and secretKey of the storage that the demo brought."""
        data = self.kube.get("secret", "minio-root", "--namespace=minio")["data"]
        return {name: base64.b64decode(text).decode() for name, text in data.items()}

    def _inside(self, argv: list[str]) -> list[str]:
        assert self.cluster is not None
        return execution.command(self.cluster, argv, names=True)


def own_node(name: str, progress: Progress) -> Place:
    """The project's node, started or repaired, with the images of the present code."""
    node.up(name, progress=progress)
    built = images.project_images(progress)
    cluster = recorded(name)
    assert cluster is not None
    for reference, folder in built:
        with progress.step(f"import {reference}") as step:
            step.waits_for("containerd to unpack it")
            images.load(cluster, folder)
    operator, runtime = (reference for reference, _ in built)
    kube = Kube(str(cluster.bin / "kubectl"), (f"--kubeconfig={cluster.kubeconfig}",))
    return Place(kube, operator, runtime, cluster, {"BACKSTAY_PROMETHEUS_URL": settings.PROMETHEUS})


def present_node(name: str) -> Cluster | None:
    """The project's node of that name, if there is one."""
    return recorded(name)


def remove_node(name: str) -> None:
    """End the project's node and all that it left."""
    stop(name)


def given_cluster(environment: Mapping[str, str]) -> Kube | None:
    """The cluster that the user's kubeconfig names, if there is one and it answers."""
    program = shutil.which("kubectl", path=environment.get("PATH"))
    if program is None or environment.get(OWN_NODE) or not _configured(environment):
        return None
    kube = Kube(program, (), environment)
    try:
        kube.run("version", "--request-timeout=5s", "--output=json", timeout_s=15)
    except KubectlError:
        return None
    return kube


def _configured(environment: Mapping[str, str]) -> bool:
    """Whether there is a kubeconfig that is not the project's own node's."""
    named = environment.get("KUBECONFIG")
    if named:
        return not Path(named).is_relative_to(run_root())
    return (Path(environment.get("HOME", "/")) / ".kube" / "config").is_file()


def given_place(kube: Kube, environment: Mapping[str, str], progress: Progress) -> Place:
    """That cluster with the demo's object storage in it. Raises DemoError, saying what it lacks."""
    operator, runtime = environment.get(OPERATOR_IMAGE), environment.get(RUNTIME_IMAGE)
    context = kube.run("config", "current-context").strip()
    if not operator or not runtime:
        raise DemoError(GIVEN_CLUSTER.format(context=context))
    progress.say(f"in the cluster of your kubeconfig's context {context!r}; {OWN_NODE}=1 uses a node of this machine")
    for name in (settings.SYSTEM, settings.DEMO, "minio"):
        if not _is_free(kube, name):
            raise DemoError(f"namespace {name} is there and not the demo's: remove it, or take another cluster")
    with progress.step("object storage in the given cluster") as step:
        step.waits_for("MinIO")
        kube.apply(*_storage_objects(environment.get(MINIO_IMAGE) or PUBLIC_MINIO))
        kube.run("rollout", "status", "deployment/minio", "--namespace=minio", "--timeout=180s", timeout_s=190)
    return Place(kube, operator, runtime)


def _is_free(kube: Kube, namespace: str) -> bool:
    found = kube.items("namespaces", f"--field-selector=metadata.name={namespace}")
    return all(settings.MARK in one["metadata"].get("labels", {}) for one in found)


def _storage_objects(image: str) -> list[Json]:
    text = images.render_manifests(images.FOLDER / "addons" / "minio.yaml", images={"minio": image})
    objects = [one for one in yaml.safe_load_all(text.replace("imagePullPolicy: Never", "")) if one]
    label = {"name": "minio", "labels": {settings.MARK: "true"}}
    return [{"apiVersion": "v1", "kind": "Namespace", "metadata": label}, *objects]


@contextlib.contextmanager
def _forwarded(kube: Kube, namespace: str, target: str, port: int, within_s: float = 20) -> Iterator[int]:
    """A port of this machine that leads to the target's."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        local = int(probe.getsockname()[1])
    command = kube.command("port-forward", f"--namespace={namespace}", target, f"{local}:{port}")
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=dict(kube.environment))
    try:
        until = time.monotonic() + within_s
        while not _listens(local):
            if process.poll() is not None or time.monotonic() > until:
                raise DemoError(f"kubectl port-forward {target} in namespace {namespace} does not come up")
            time.sleep(0.1)
        yield local
    finally:
        process.terminate()
        process.wait(timeout=10)


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False
