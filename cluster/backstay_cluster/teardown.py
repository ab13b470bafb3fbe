"""Removing a cluster so that nothing stays: processes, mounts, namespace, cgroups, files."""

import os
import shutil
import time
from pathlib import Path

from backstay_cluster import containers, leftovers, machine, mounts, netns, probe, process, running, traces
from backstay_cluster.cluster import Cluster, default_store, existing, recorded
from backstay_cluster.errors import ClusterError
from backstay_cluster.node_components import containerd

_GRACE_S = 1.0
"""What the components hold is thrown away with the cluster, so they need no time to save it."""


def run(name: str, *, purge: bool = False) -> None:
    """Remove the cluster, also half of one that a crash left. `purge` removes the images of its node, too."""
    cluster = recorded(name)
    if cluster is None:
        if purge:
            _remove_store(default_store(name))
        return
    _end_programs(cluster)
    _end_members(cluster)
    netns.delete(cluster)
    _unmount(cluster)
    _remove_cgroup(cluster)
    leftovers.remove_files(cluster)
    _remove_store(cluster.store if purge else cluster.kubelet_root)
    shutil.rmtree(cluster.run)
    if not any(is_node(other) for other in existing()):
        leftovers.restore()
    left = traces.of(cluster)
    if left:
        raise ClusterError(f"cluster {name} is not wholly gone; left are:\n" + "\n".join(left))


def is_node(cluster: Cluster) -> bool:
    """Whether the cluster has, or had before a crash, a node beside its control plane."""
    return running.pid_file(cluster, "containerd").exists()


def _end_programs(cluster: Cluster) -> None:
    """The kubelet first, as it would start containers anew; containerd last, as it ends them."""
    started = running.processes(cluster)
    runtime = started.pop("containerd", None)
    process.stop(started.values(), grace_s=_GRACE_S)
    if runtime is not None:
        answers = probe.trouble(containerd(cluster).ready, cluster.netns) is None
        if process.alive(runtime) and answers:
            containers.remove_all(cluster)
        process.stop([runtime], grace_s=_GRACE_S)
        containers.end_left_over(cluster)


def _end_members(cluster: Cluster) -> None:
    """End what else lives in the namespace or in the pods' cgroups, a forgotten shell for example; not ourselves, if
    we were called there."""
    spared = process.ancestors(os.getpid())
    members = netns.members(cluster.netns) | machine.cgroup_members(cluster.cgroup)
    process.stop_pids(members - spared, grace_s=_GRACE_S)


def _unmount(cluster: Cluster) -> None:
    folders = [cluster.run, cluster.store]
    mounts.unmount_below(folders)
    left = mounts.below(Path("/proc/self/mountinfo").read_text(), folders)
    if left:  # removing the folders now would remove what is mounted there
        raise ClusterError(f"still mounted: {', '.join(map(str, left))}; end what uses it, then run `down` again")


def _remove_store(folder: Path) -> None:
    mounts.unmount_below([folder])
    if not mounts.below(Path("/proc/self/mountinfo").read_text(), [folder]):
        shutil.rmtree(folder, ignore_errors=True)


def _remove_cgroup(cluster: Cluster) -> None:
    """A process that was killed leaves its cgroup a moment later."""
    until = time.monotonic() + 5
    while left := machine.remove_cgroup(cluster.cgroup):
        if time.monotonic() > until:
            raise ClusterError(f"cgroups in use: {', '.join(map(str, left))}; run `down` again")
        time.sleep(0.1)
