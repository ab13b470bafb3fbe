"""The node: pods run, Services answer, logs and exec work, and nothing is left when it has ended."""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from backstay_cluster import control_plane, node, process, programs, running, traces
from backstay_cluster.control_plane import ControlPlane
from backstay_cluster.errors import ClusterError
from backstay_cluster.node_components import PAUSE_IMAGE

pytestmark = pytest.mark.node

PORT = 8000
SHARED_FOLDERS = ("/run/containerd", "/run/nri", "/opt/containerd", "/var/lib/cni", "/var/lib/kubelet", "/var/log/pods")


def _web() -> str:
    """Two pods that answer over HTTP with their own names, and a Service in front of them. The image holds nothing but
    the pause program, so they bring the project's kubectl along: a static program that serves and fetches files."""
    program = str(programs.built("kube"))
    command = ["/kubectl", "proxy", "--address=0.0.0.0", f"--port={PORT}", "--accept-hosts=.*"]
    container = {
        "name": "web",
        "image": PAUSE_IMAGE,
        "command": [*command, "--www=/etc", "--www-prefix=/etc/"],
        "readinessProbe": {"tcpSocket": {"port": PORT}, "periodSeconds": 1},
        "resources": {"limits": {"cpu": "500m", "memory": "200Mi"}, "requests": {"cpu": "10m", "memory": "50Mi"}},
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "readOnlyRootFilesystem": True,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumeMounts": [{"name": "kubectl", "mountPath": "/kubectl", "readOnly": True}],
    }
    pod = {"containers": [container], "volumes": [{"name": "kubectl", "hostPath": {"path": program, "type": "File"}}]}
    labels = {"app": "web"}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web"},
        "spec": {"selector": labels, "ports": [{"port": 80, "targetPort": PORT}]},
    }
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": [deployment, service]})


@pytest.fixture(scope="module")
def cluster() -> Iterator[ControlPlane]:
    name = f"node-{os.getpid()}"
    try:
        yield node.up(name, addons=False)
    finally:
        control_plane.stop(name, purge=True)


@pytest.fixture(scope="module")
def web(cluster: ControlPlane) -> list[str]:
    """Names of the two pods, serving."""
    cluster.kubectl("apply", "--filename=-", text=_web())
    cluster.kubectl("rollout", "status", "deployment/web", "--timeout=60s", timeout_s=70)
    names = cluster.kubectl("get", "pods", "--selector=app=web", "--output=jsonpath={.items[*].metadata.name}").split()
    address = cluster.kubectl("get", "service", "web", "--output=jsonpath={.spec.clusterIP}")
    fetch = ("/kubectl", f"--server=http://{address}", "get", "--raw=/etc/hostname")
    seen: set[str] = set()

    def routed() -> bool:
        # A pod is ready before kube-proxy routes to it.
        with contextlib.suppress(ClusterError):
            seen.add(cluster.kubectl("exec", names[0], "--", *fetch).strip())
        return seen == set(names)

    _eventually(routed, "the Service routes to both pods")
    return names


def _run(cluster: ControlPlane, *argv: str) -> str:
    """Output of a command in the cluster's network, started as a person would."""
    command = [sys.executable, "-m", "backstay_cluster", "exec", "--name", cluster.cluster.name, "--", *argv]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout


def _eventually(holds: Callable[[], bool], what: str, seconds: float = 30) -> None:
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until, f"{what}: not within {seconds} s"
        time.sleep(0.2)


def test_the_service_answers_pods_and_the_node_and_reaches_both_pods(cluster: ControlPlane, web: list[str]) -> None:
    address = cluster.kubectl("get", "service", "web", "--output=jsonpath={.spec.clusterIP}")
    fetch = ("/kubectl", f"--server=http://{address}", "get", "--raw=/etc/hostname")
    from_pod = {cluster.kubectl("exec", web[0], "--", *fetch).strip() for _ in range(20)}
    assert from_pod == set(web)  # its own name, too: a pod reaches itself through its Service
    assert _run(cluster, "kubectl", *fetch[1:]).strip() in web


def test_services_have_names_in_pods_and_for_commands_in_the_clusters_network(
    cluster: ControlPlane, web: list[str]
) -> None:
    fetch = ("get", "--raw=/etc/hostname")
    assert cluster.kubectl("exec", web[0], "--", "/kubectl", "--server=http://web", *fetch).strip() in web
    assert _run(cluster, "kubectl", "--server=http://web.default", *fetch).strip() in web


def test_a_pod_calls_the_api_with_its_own_account_over_verified_tls(cluster: ControlPlane, web: list[str]) -> None:
    version = cluster.kubectl("exec", web[0], "--", "/kubectl", "get", "--raw=/version")
    assert json.loads(version)["gitVersion"] == "v1.37.2"
    with pytest.raises(ClusterError, match="system:serviceaccount:default:default"):
        cluster.kubectl("exec", web[0], "--", "/kubectl", "get", "secrets")


def test_logs_are_what_the_pod_wrote(cluster: ControlPlane, web: list[str]) -> None:
    assert "Starting to serve" in cluster.kubectl("logs", web[0])


def test_an_address_of_no_service_reaches_nobody(cluster: ControlPlane) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        _run(cluster, "kubectl", "--server=http://10.96.200.200", "--request-timeout=5s", "get", "--raw=/")


def test_pods_live_on_while_kubelet_and_containerd_are_repaired(cluster: ControlPlane, web: list[str]) -> None:
    query = (
        "get",
        "pods",
        "--selector=app=web",
        "--output=jsonpath={.items[*].status.containerStatuses[*].containerID}",
    )
    before = cluster.kubectl(*query)
    dead = [running.processes(cluster.cluster)[name] for name in ("kubelet", "containerd")]
    process.stop(dead, grace_s=0)
    node.up(cluster.cluster.name, addons=False)
    assert cluster.kubectl(*query) == before
    assert _version_in(cluster, web[0], within_s=30).startswith("Client Version")


def _version_in(cluster: ControlPlane, pod: str, within_s: float) -> str:
    """What the pod's program says by exec. A kubelet that has just started knows its pods only after its first sync."""
    until = time.monotonic() + within_s
    while True:
        try:
            return cluster.kubectl("exec", pod, "--", "/kubectl", "version", "--client")
        except ClusterError as error:
            if "pod does not exist" not in str(error) or time.monotonic() > until:
                raise
            time.sleep(0.5)


def test_ending_the_node_leaves_nothing_behind_but_its_images() -> None:
    shared = {folder: _listing(folder) for folder in SHARED_FOLDERS}
    settings = {name: Path("/proc/sys", name).read_text() for name in ("vm/overcommit_memory", "kernel/panic")}
    name = f"gone-{os.getpid()}"
    started = node.up(name, addons=False)
    started.kubectl("apply", "--filename=-", text=_web())
    started.kubectl("rollout", "status", "deployment/web", "--timeout=60s", timeout_s=70)
    found = traces.of(started.cluster)
    assert {"process", "mount", "network", "cgroup", "file", "folder"} <= {trace.split()[0] for trace in found}
    control_plane.stop(name)
    assert traces.of(started.cluster) == []
    assert started.cluster.containerd_root.is_dir()
    control_plane.stop(name, purge=True)
    assert not started.cluster.store.exists()
    if not os.path.exists(started.cluster.run.parent):  # no other cluster runs on this machine
        assert {folder: _listing(folder) for folder in SHARED_FOLDERS} == shared
        assert {name: Path("/proc/sys", name).read_text() for name in settings} == settings


def test_a_node_whose_machine_was_restarted_starts_without_the_old_pods() -> None:
    name = f"again-{os.getpid()}"
    try:
        started = node.up(name, addons=False)
        started.kubectl("apply", "--filename=-", text=_web())
        started.kubectl("rollout", "status", "deployment/web", "--timeout=60s", timeout_s=70)
        containers = _containers(started)
        _crash(started)
        again = node.up(name, addons=False)
        _eventually(lambda: len(_containers(again)) >= 2, "the pods of the cluster itself")
        assert not containers & _containers(again)
        assert "No resources" in again.kubectl("get", "deployments") or not again.kubectl("get", "deployments")
    finally:
        control_plane.stop(name, purge=True)


def _containers(cluster: ControlPlane) -> set[str]:
    paths = cluster.cluster
    command = [f"{paths.bin}/ctr", f"--address={paths.containerd_socket}", "--namespace=k8s.io"]
    return set(subprocess.check_output([*command, "containers", "list", "--quiet"], text=True).split())


def _crash(cluster: ControlPlane) -> None:
    """End everything at once and lose the run folder, as a machine that loses power does; the disk stays."""
    from backstay_cluster import machine, mounts, netns

    paths = cluster.cluster
    members = netns.members(paths.netns) | machine.cgroup_members(paths.cgroup)
    process.stop_pids(members, grace_s=0)
    process.stop(running.processes(paths).values(), grace_s=0)
    netns.delete(paths)
    mounts.unmount_below([paths.run, paths.store])
    subprocess.run(["rm", "-rf", str(paths.run)], check=True)


def _listing(folder: str) -> list[str]:
    return sorted(str(path) for path in Path(folder).rglob("*"))
