"""Everything on the machine that belongs to a cluster, found by looking at the machine and not at our records."""

import contextlib
import os
from pathlib import Path

from backstay_cluster import leftovers, machine, mounts, netns, process
from backstay_cluster.cluster import Cluster


def of(cluster: Cluster) -> list[str]:
    """One text for each trace, empty when the cluster is wholly gone. Images, which may stay, are none."""
    found = [f"process {pid}: {line}" for pid, line in _processes(cluster)]
    left = mounts.below(Path("/proc/self/mountinfo").read_text(), [cluster.run, cluster.store])
    found += [f"mount {point}" for point in left]
    if (Path("/sys/class/net") / cluster.link).exists():
        found.append(f"network link {cluster.link}")
    found += [f"cgroup {folder}" for folder in machine.cgroups(cluster.cgroup)]
    found += [f"file {path}" for path in leftovers.files(cluster)]
    found += [f"folder {path}" for path in (cluster.run, cluster.kubelet_root) if path.exists()]
    return found


def _processes(cluster: Cluster) -> list[tuple[int, str]]:
    """Those that name the run folder on their command line or live in the namespace, us and our callers excepted."""
    spared = process.ancestors(os.getpid())
    mark = f"{cluster.run}/".encode()
    members = netns.members(cluster.netns)
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        pid = int(entry.name)
        with contextlib.suppress(OSError):
            line = (entry / "cmdline").read_bytes()
            if pid not in spared and line and (mark in line or pid in members):
                found.append((pid, line.replace(b"\0", b" ").decode(errors="replace")[:120]))
    return found
