"""The control plane that other tests rely on: real authorization, real controllers, and no trace when it has ended."""

import http.client
import json
import os
import re
import signal
import ssl
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from backstay_cluster import control_plane, process, running, traces
from backstay_cluster.control_plane import ControlPlane
from backstay_cluster.errors import ClusterError

pytestmark = pytest.mark.control_plane

DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "localhost/none:1"}]},
        },
    },
}


def _own_name(purpose: str) -> str:
    return f"{purpose}-{os.getpid()}"


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with control_plane.running_for(_own_name("cp")) as started:
        yield started


def _eventually(holds: Callable[[], bool], what: str, seconds: float = 15) -> None:
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until, f"{what}: not within {seconds} s"
        time.sleep(0.1)


def _get(plane: ControlPlane, path: str, token: str) -> tuple[int, str]:
    """Status and body, asked from the machine's own network over verified TLS."""
    host, port = re.fullmatch(r"https://(.*):(\d+)", plane.server).groups()  # type: ignore[union-attr]
    context = ssl.create_default_context(cafile=str(plane.authority))
    connection = http.client.HTTPSConnection(host, int(port), timeout=10, context=context)
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_a_token_without_rights_is_denied_and_gets_exactly_what_it_is_granted(plane: ControlPlane) -> None:
    plane.kubectl("create", "serviceaccount", "nobody")
    token = plane.kubectl("create", "token", "nobody").strip()
    secrets, pods = "/api/v1/namespaces/default/secrets", "/api/v1/namespaces/default/pods"
    status, body = _get(plane, pods, token)
    assert status == 403
    assert "system:serviceaccount:default:nobody" in body
    plane.kubectl("create", "role", "reader", "--verb=list", "--resource=pods")
    plane.kubectl("create", "rolebinding", "reader", "--role=reader", "--serviceaccount=default:nobody")
    _eventually(lambda: _get(plane, pods, token)[0] == 200, "the granted right")
    assert _get(plane, secrets, token)[0] == 403


def test_an_invented_token_is_not_let_in(plane: ControlPlane) -> None:
    assert _get(plane, "/api/v1/namespaces/default/pods", "invented")[0] == 401


def test_a_deployment_yields_a_replica_set_and_its_pods(plane: ControlPlane) -> None:
    plane.kubectl("apply", "--filename=-", text=json.dumps(DEPLOYMENT))

    def pods() -> list[dict[str, str]]:
        listed = json.loads(plane.kubectl("get", "pods", "--selector=app=web", "--output=json"))
        return [pod["metadata"]["ownerReferences"][0] for pod in listed["items"]]

    _eventually(lambda: len(pods()) == 2, "two pods")
    assert {owner["kind"] for owner in pods()} == {"ReplicaSet"}
    plane.kubectl("delete", "deployment", "web")
    _eventually(lambda: not pods(), "the pods' removal by the garbage collector")


def test_the_store_is_closed_to_who_has_no_certificate_of_its_authority(plane: ControlPlane) -> None:
    def ask() -> int:
        context = ssl.create_default_context(cafile=str(plane.cluster.pki / "etcd-ca.crt"))
        # A certificate that the API server trusts is a stranger here.
        context.load_cert_chain(plane.cluster.pki / "kubelet.crt", plane.cluster.pki / "kubelet.key")
        connection = http.client.HTTPSConnection("127.0.0.1", 2379, timeout=5, context=context)
        try:
            connection.request("GET", "/version")
            return connection.getresponse().status
        finally:
            connection.close()

    with pytest.raises((ssl.SSLError, ConnectionResetError)):
        plane.inside(ask)


def test_starting_again_repairs_what_died_and_keeps_what_was_stored(plane: ControlPlane) -> None:
    plane.kubectl("create", "configmap", "kept", "--from-literal=a=b")
    before = running.processes(plane.cluster)
    for name in ("etcd", "kube-controller-manager"):
        os.kill(before[name].pid, signal.SIGKILL)
        _eventually(lambda name=name: not process.alive(before[name]), f"the end of {name}")  # type: ignore[misc]
    again = control_plane.start(plane.cluster.name)
    after = running.processes(again.cluster)
    assert after["kube-apiserver"] == before["kube-apiserver"]
    assert after["etcd"] != before["etcd"]
    assert again.kubectl("get", "configmap", "kept", "--output=jsonpath={.data.a}") == "b"


def test_two_control_planes_run_side_by_side_and_know_nothing_of_each_other(plane: ControlPlane) -> None:
    with control_plane.running_for(_own_name("other")) as other:
        assert other.server != plane.server
        other.kubectl("create", "namespace", "only-here")
        with pytest.raises(ClusterError, match="NotFound"):
            plane.kubectl("get", "namespace", "only-here")
        token = other.kubectl("create", "token", "default").strip()
        assert _get(plane, "/api", token)[0] == 401


def test_two_starts_of_one_name_at_once_give_one_control_plane() -> None:
    name = _own_name("twice")
    try:
        with ThreadPoolExecutor() as pool:
            first, second = pool.map(control_plane.start, [name, name])
        assert first == second
        etcd = [trace for trace in traces.of(first.cluster) if "/bin/etcd" in trace]
        assert len(etcd) == 1
    finally:
        control_plane.stop(name)


def test_stopping_leaves_nothing_behind(tmp_path: Path) -> None:
    mounts_before = _mounts()
    started = control_plane.start(_own_name("gone"))
    forgotten = process.start(
        ["sleep", "600"],  # as a shell that somebody left open
        netns=started.netns,
        log=tmp_path / "log",
        pid_file=tmp_path / "sleep.json",
        environment={"PATH": "/bin:/usr/bin"},
    )
    kinds = {trace.split()[0] for trace in traces.of(started.cluster)}
    assert {"process", "mount", "network", "folder"} <= kinds
    started.stop()
    assert traces.of(started.cluster) == []
    assert not process.alive(forgotten)
    assert not started.cluster.run.exists()
    assert not started.cluster.run.with_suffix(".lock").exists()
    assert not [line for line in _mounts() - mounts_before if started.cluster.name in line]
    assert started.cluster.link not in os.listdir("/sys/class/net")


def test_what_a_crash_left_is_cleared_away_by_the_next_start() -> None:
    started = control_plane.start(_own_name("crash"))
    try:
        for each in running.processes(started.cluster).values():
            os.kill(each.pid, signal.SIGKILL)
        (started.cluster.run / "net.complete").unlink()  # as if it had happened while the namespace was made
        again = control_plane.start(started.cluster.name)
        assert again.kubectl("get", "--raw=/readyz") == "ok"
    finally:
        started.stop()
    assert traces.of(started.cluster) == []


def test_stopping_what_does_not_run_is_no_error() -> None:
    control_plane.stop(_own_name("never"))


def _mounts() -> set[str]:
    return set(Path("/proc/self/mountinfo").read_text().splitlines())
