"""A control plane without a node, for integration tests: real API server, real RBAC, real controllers."""

import contextlib
import datetime
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from backstay_cluster import components, credentials, locks, netns, prerequisites, programs, running, teardown
from backstay_cluster.cluster import DEFAULT_NAME, Cluster, checked_name, run_root, settle
from backstay_cluster.errors import ClusterError
from backstay_cluster.progress import Progress
from backstay_cluster.shell import run

Result = TypeVar("Result")


@dataclass(frozen=True)
class ControlPlane:
    """A running control plane. `server` is reachable from the machine as well as from inside the namespace."""

    cluster: Cluster

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.cluster.kubeconfig

    @property
    def netns(self) -> Path:
        """The network namespace, as a file for nsenter --net=."""
        return self.cluster.netns

    @property
    def server(self) -> str:
        """https://ADDRESS:PORT of the API server."""
        return self.cluster.server

    @property
    def authority(self) -> Path:
        """The CA that vouches for the API server."""
        return self.cluster.pki / "ca.crt"

    def kubectl(self, *arguments: str, text: str | None = None, timeout_s: float = 60) -> str:
        """Standard output of kubectl as the administrator; ClusterError when it fails."""
        return kubectl(self.cluster, *arguments, text=text, timeout_s=timeout_s)

    def inside(self, action: Callable[[], Result]) -> Result:
        """Call `action` in a thread inside the namespace: its sockets reach loopback, pods and Services."""
        return netns.inside(self.netns, action)

    def stop(self) -> None:
        """End it and remove all that it left."""
        stop(self.cluster.name)


def start(name: str = DEFAULT_NAME, *, progress: Progress | None = None) -> ControlPlane:
    """Start the control plane of that name, or repair and return the one that runs. Several names run side by side."""
    progress = progress or Progress()
    prerequisites.require(prerequisites.CONTROL_PLANE, progress)
    paths = programs.ensure(programs.CONTROL_PLANE, progress)
    with lock(name):
        cluster = prepare(name, paths)
        running.bring_up(cluster, components.control_plane(cluster), progress)
        wait_for_service_account(cluster, progress)
    return ControlPlane(cluster)


@contextlib.contextmanager
def running_for(name: str, *, progress: Progress | None = None) -> Iterator[ControlPlane]:
    """A control plane that ends with the block."""
    try:
        yield start(name, progress=progress)
    finally:
        stop(name)


def stop(name: str, *, purge: bool = False) -> None:
    """End the cluster of that name, whatever state it is in; nothing happens when there is none. `purge` removes the
    images of its node, too, which else make the next start quicker."""
    with lock(name, remove=True):
        teardown.run(name, purge=purge)
    with contextlib.suppress(OSError):  # another cluster's folder may stand in it
        run_root().rmdir()


def lock(name: str, *, remove: bool = False) -> contextlib.AbstractContextManager[None]:
    """Keeps two commands from changing one cluster at once."""
    return locks.held(run_root() / f"{checked_name(name)}.lock", remove=remove)


def prepare(name: str, paths: dict[str, Path]) -> Cluster:
    """Folders, namespace, keys and links: all that components need before they start."""
    cluster = settle(checked_name(name))
    if not netns.complete(cluster):
        teardown.run(name)  # what runs without its network, after a crash, is of no use
        cluster = settle(name)
        netns.create(cluster)
    programs.link(paths, cluster.bin)
    credentials.create(cluster, datetime.datetime.now(datetime.UTC))
    return cluster


def kubectl(cluster: Cluster, *arguments: str, text: str | None = None, timeout_s: float = 60) -> str:
    """Standard output of kubectl as the cluster's administrator."""
    command = [f"{cluster.bin}/kubectl", f"--kubeconfig={cluster.kubeconfig}", *arguments]
    return run(command, text=text, timeout_s=timeout_s)


def wait_for_service_account(cluster: Cluster, progress: Progress, *, limit_s: float = 30) -> None:
    """Wait for the account that the controllers make in namespace default: before it, pods are refused."""
    until = time.monotonic() + limit_s
    with progress.step("first service account") as step:
        while True:
            try:
                kubectl(cluster, "get", "serviceaccount", "default", "--output=name")
                return
            except ClusterError as error:
                if time.monotonic() > until:
                    raise
                step.waits_for(str(error).rpartition(": ")[2])
                time.sleep(0.2)
