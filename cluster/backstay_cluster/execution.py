"""Running a person's or a test's command inside the cluster's network."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from backstay_cluster import netns
from backstay_cluster.cluster import Cluster
from backstay_cluster.errors import ClusterError
from backstay_cluster.running import SYSTEM_PATH

_WITH_NAMES = 'mount --bind "$0" /etc/resolv.conf && exec "$@"'
"""In a mount namespace of its own, the command resolves names with the cluster's DNS; nobody else sees that mount."""


def command(cluster: Cluster, argv: Sequence[str], *, names: bool) -> list[str]:
    """The command line that runs `argv` in the cluster's network; with `names`, Services have names there."""
    if not names:
        return netns.inside_command(cluster.netns, list(argv))
    resolver = str(cluster.run / "services-resolv.conf")
    wrapped = ["unshare", "--mount", "--propagation=private", "sh", "-c", _WITH_NAMES, resolver, *argv]
    return netns.inside_command(cluster.netns, wrapped)


def environment(cluster: Cluster, inherited: Mapping[str, str]) -> dict[str, str]:
    """The caller's environment with KUBECONFIG set and the cluster's programs first on PATH."""
    path = inherited.get("PATH", SYSTEM_PATH)
    return {
        **inherited,
        "PATH": f"{cluster.bin}:{path}",
        "KUBECONFIG": str(cluster.kubeconfig),
        "BACKSTAY_CLUSTER": cluster.name,
    }


def replace_by(cluster: Cluster, argv: Sequence[str]) -> NoReturn:
    """Become the command; returns never. Its exit code is what the caller sees."""
    if not netns.complete(cluster):
        raise ClusterError(f"cluster {cluster.name!r} does not run; `python -m backstay_cluster up` starts it")
    names = (cluster.run / "services-resolv.conf").exists() and Path("/etc/resolv.conf").exists()
    line = command(cluster, argv, names=names)
    os.execvpe(line[0], line, environment(cluster, os.environ))  # noqa: S606 - no shell is what we want
