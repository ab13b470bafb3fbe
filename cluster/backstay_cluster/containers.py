"""What runs in a cluster's containerd, seen and ended through ctr."""

import contextlib
import json
from pathlib import Path

from backstay_cluster import process
from backstay_cluster.cluster import Cluster
from backstay_cluster.errors import ClusterError
from backstay_cluster.shell import run

NAMESPACE = "k8s.io"


def remove_all(cluster: Cluster) -> None:
    """End all containers and forget them, images excepted. The kubelet must not run: it would start them anew."""
    for task in _ctr(cluster, "tasks", "list", "--quiet").split():
        _ctr_if_possible(cluster, "tasks", "kill", "--all", "--signal=SIGKILL", task)
    _remove(cluster, ("tasks", "delete", "--force"), _ctr(cluster, "tasks", "list", "--quiet").split())
    _remove(cluster, ("containers", "delete"), _ctr(cluster, "containers", "list", "--quiet").split())
    sandboxes = [line.split()[0] for line in _ctr(cluster, "sandboxes", "list").splitlines()[1:] if line.strip()]
    _remove(cluster, ("sandboxes", "delete", "--force"), sandboxes)


def shims(cluster: Cluster) -> set[int]:
    """Pids of this containerd's shims, which outlive it; told by the socket that they report to."""
    wanted = str(cluster.containerd_socket).encode()
    found = set()
    for command_line in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            content = command_line.read_bytes()
            if b"containerd-shim" in content.split(b"\0")[0] and wanted in content:
                found.add(int(command_line.parent.name))
    return found


def shim_sockets(cluster: Cluster) -> set[Path]:
    """Sockets of this containerd's shims. They lie in a folder that all containerds of a machine share."""
    found = set()
    for bootstrap in (cluster.run / "containerd").glob("io.containerd.runtime.v2.task/*/*/bootstrap.json"):
        with contextlib.suppress(OSError, ValueError, KeyError):
            found.add(Path(json.loads(bootstrap.read_text())["address"].removeprefix("unix://")))
    return found


def end_left_over(cluster: Cluster) -> None:
    """End shims that outlived containerd and remove their sockets."""
    sockets = shim_sockets(cluster)
    process.stop_pids(shims(cluster), grace_s=1)
    for socket in sockets:
        socket.unlink(missing_ok=True)


def _remove(cluster: Cluster, command: tuple[str, ...], names: list[str]) -> None:
    if names:
        _ctr_if_possible(cluster, *command, *names)


def _ctr_if_possible(cluster: Cluster, *arguments: str) -> None:
    with contextlib.suppress(ClusterError):  # gone by itself meanwhile
        _ctr(cluster, *arguments)


def _ctr(cluster: Cluster, *arguments: str) -> str:
    address = f"--address={cluster.containerd_socket}"
    return run([f"{cluster.bin}/ctr", address, f"--namespace={NAMESPACE}", *arguments])
