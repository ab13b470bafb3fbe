"""How a cluster is, for people and for scripts."""

from typing import Any

from backstay_cluster import components, node_components, running, teardown
from backstay_cluster.cluster import Cluster, recorded
from backstay_cluster.components import Component


def expected(cluster: Cluster) -> list[Component]:
    """The components that this cluster should run."""
    plane = components.control_plane(cluster)
    return [*plane, *node_components.node(cluster)] if teardown.is_node(cluster) else plane


def report(name: str) -> dict[str, Any]:
    """Everything `status -o json` says. `healthy` is true when all components of an existing cluster are ready."""
    cluster = recorded(name)
    if cluster is None:
        return {"name": name, "healthy": False, "mode": None, "components": []}
    found = [running.health(cluster, component) for component in expected(cluster)]
    return {
        "name": name,
        "healthy": all(each.trouble is None for each in found),
        "mode": "node" if teardown.is_node(cluster) else "control-plane-only",
        "server": cluster.server,
        "kubeconfig": str(cluster.kubeconfig),
        "netns": str(cluster.netns),
        "programs": str(cluster.bin),
        "node": cluster.node if teardown.is_node(cluster) else None,
        "components": [{"name": each.component, "pid": each.pid, "trouble": each.trouble} for each in found],
    }
