"""A whole cluster of one node: the control plane, containerd, the kubelet, and what runs in it."""

import json
import shutil
import time
from pathlib import Path
from typing import Any

import yaml

from backstay_cluster import (
    components,
    containers,
    credentials,
    images,
    leftovers,
    machine,
    mounts,
    node_components,
    prerequisites,
    process,
    programs,
    running,
)
from backstay_cluster import control_plane as plane
from backstay_cluster.cluster import DEFAULT_NAME, Cluster
from backstay_cluster.control_plane import ControlPlane, kubectl
from backstay_cluster.errors import ClusterError
from backstay_cluster.progress import Progress

OWN_NAMESPACES = frozenset({"kube-system", "minio", "monitoring"})
_FIELD_MANAGER = "backstay-cluster"


def up(name: str = DEFAULT_NAME, *, addons: bool = True, progress: Progress | None = None) -> ControlPlane:
    """Start the cluster, or repair the one that runs; returns when its pods can be scheduled and Services answer."""
    progress = progress or Progress()
    prerequisites.require((*prerequisites.CONTROL_PLANE, *prerequisites.NODE), progress)
    paths = programs.ensure(programs.NODE, progress)
    system = images.system_images(progress)
    added = images.addon_images(progress) if addons else []
    with plane.lock(name):
        cluster = plane.prepare(name, paths)
        _prepare_machine(cluster)
        runtime, *agents = node_components.node(cluster)
        basis = [*components.control_plane(cluster), runtime]
        running.bring_up(cluster, basis, progress)
        _forget_earlier_pods(cluster)
        _import(cluster, system, progress)
        running.bring_up(cluster, [*basis, *agents], progress)
        plane.wait_for_service_account(cluster, progress)
        _wait_node(cluster, progress)
        _apply(cluster, "node access and DNS", _rbac() + images.render_manifests(images.FOLDER), progress)
        if addons:
            _import(cluster, added, progress)
            manifests = images.render_manifests(images.FOLDER / "addons")
            _apply(cluster, "object storage and monitoring", manifests, progress)
        _wait_available(cluster, progress)
    return ControlPlane(cluster)


def _prepare_machine(cluster: Cluster) -> None:
    leftovers.remember()
    machine.make_cgroup(cluster.cgroup)
    lower = machine.may_lower_oom_score(Path("/proc/self/status").read_text())
    for name, content in node_components.files(cluster, lower_oom_score=lower).items():
        path = cluster.run / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text() != content:  # kube-proxy ends when its file is written to
            path.write_text(content)


def _forget_earlier_pods(cluster: Cluster) -> None:
    """Remove what is left of a life of this cluster that ended without `down`, by the machine's restart for example;
    once in the present life, before its first pod."""
    done = cluster.run / "pods.forgotten"
    if not done.exists():
        containers.remove_all(cluster)
        mounts.unmount_below([cluster.kubelet_root])
        shutil.rmtree(cluster.kubelet_root, ignore_errors=True)
        done.touch()


def _import(cluster: Cluster, found: list[tuple[str, Path]], progress: Progress) -> None:
    for name, archive in found:
        with progress.step(f"import {name}") as step:
            step.waits_for("containerd")
            images.load(cluster, archive)


def _rbac() -> str:
    """Lets the API server ask the kubelet for logs and exec, in the name of its own client certificate."""
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": credentials.KUBELET_CLIENT}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:kubelet-api-admin"}
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": credentials.KUBELET_CLIENT},
        "subjects": [subject],
        "roleRef": role,
    }
    return f"{yaml.safe_dump(binding)}\n---\n"


def _apply(cluster: Cluster, what: str, manifests: str, progress: Progress) -> None:
    with progress.step(f"apply {what}") as step:
        step.waits_for("the API server")
        kubectl(cluster, "apply", "--server-side", f"--field-manager={_FIELD_MANAGER}", "--filename=-", text=manifests)


def _wait_node(cluster: Cluster, progress: Progress, *, limit_s: float = 60) -> None:
    condition = 'jsonpath={.status.conditions[?(@.type=="Ready")].status}'
    until = time.monotonic() + limit_s
    with progress.step(f"node {cluster.node}") as step:
        while True:
            try:
                state = kubectl(cluster, "get", "node", cluster.node, f"--output={condition}")
            except ClusterError as error:
                state = str(error).rpartition(": ")[2]
            if state == "True":
                return
            if time.monotonic() > until:
                log = running.log_file(cluster, "kubelet")
                raise ClusterError(f"node {cluster.node} is not ready ({state}):\n{process.tail(log)}")
            step.waits_for(f"condition Ready (now: {state or 'unknown'})")
            time.sleep(0.2)


def unavailable(deployments: dict[str, Any]) -> list[str]:
    """namespace/name of the cluster's own Deployments, in a list of them as the API gives it, that do not serve yet."""
    waiting = []
    for item in deployments["items"]:
        namespace, name = item["metadata"]["namespace"], item["metadata"]["name"]
        conditions = item.get("status", {}).get("conditions", [])
        available = any(each["type"] == "Available" and each["status"] == "True" for each in conditions)
        if namespace in OWN_NAMESPACES and not available:
            waiting.append(f"{namespace}/{name}")
    return waiting


def _wait_available(cluster: Cluster, progress: Progress, *, limit_s: float = 120) -> None:
    until = time.monotonic() + limit_s
    query = ("get", "deployments", "--all-namespaces", "--output=json")
    with progress.step("pods of the cluster itself") as step:
        while waiting := unavailable(json.loads(kubectl(cluster, *query))):
            if time.monotonic() > until:
                raise ClusterError(f"no pod serves for {', '.join(waiting)}:\n{_reasons(cluster, waiting)}")
            step.waits_for(", ".join(waiting))
            time.sleep(0.3)


def _reasons(cluster: Cluster, waiting: list[str]) -> str:
    """All pods, and the last words of those that are waited for."""
    said = [kubectl(cluster, "get", "pods", "--all-namespaces", "--output=wide")]
    for deployment in waiting:
        namespace, _, name = deployment.partition("/")
        try:
            log = kubectl(cluster, "logs", f"--namespace={namespace}", f"deployment/{name}", "--tail=5")
        except ClusterError as error:
            log = str(error)
        said.append(f"log of {deployment}:\n{log}")
    return "\n".join(said)
