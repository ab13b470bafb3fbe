"""Removing a cluster so that nothing stays: processes, mounts, namespace, cgroups, files."""

import os
import shutil

from backstay_cluster import mounts, netns, process, running
from backstay_cluster.cluster import Cluster, recorded

_GRACE_S = 1.0
"""What the components hold is thrown away with the cluster, so they need no time to save it."""


def run(name: str, *, purge: bool = False) -> None:
    """Remove the cluster, also half of one that a crash left. `purge` removes the images of its node, too."""
    cluster = recorded(name)
    if cluster is not None:
        process.stop(running.processes(cluster).values(), grace_s=_GRACE_S)
        _end_members(cluster)
        netns.delete(cluster)
        mounts.unmount_below([cluster.run, cluster.store])
        shutil.rmtree(cluster.run)


def _end_members(cluster: Cluster) -> None:
    """End what else lives in the namespace, a forgotten shell for example; not ourselves, if we were called there."""
    spared = process.ancestors(os.getpid())
    process.stop_pids(netns.members(cluster.netns) - spared, grace_s=_GRACE_S)
