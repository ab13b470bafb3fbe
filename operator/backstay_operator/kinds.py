"""The kinds of objects that the operator reads or writes, and their paths in the API."""

from typing import NamedTuple

from backstay_contract import names


class Kind(NamedTuple):
    """A kind of object."""

    name: str
    api_version: str
    plural: str

    @property
    def root(self) -> str:
        """The path of its group and version."""
        return f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"

    def path(self, namespace: str | None, name: str = "", subresource: str = "") -> str:
        """The path of one object, or of the list in a namespace; without a namespace, of the whole cluster's list."""
        parts = [self.root]
        if namespace is not None:
            parts += ["namespaces", namespace]
        parts += [part for part in (self.plural, name, subresource) if part]
        return "/".join(parts)


MODEL_DEPLOYMENT = Kind(names.KIND, names.API_VERSION, names.PLURAL)
DEPLOYMENT = Kind("Deployment", "apps/v1", "deployments")
SERVICE = Kind("Service", "v1", "services")
POD = Kind("Pod", "v1", "pods")
NODE = Kind("Node", "v1", "nodes")
ENDPOINT_SLICE = Kind("EndpointSlice", "discovery.k8s.io/v1", "endpointslices")
EVENT = Kind("Event", "events.k8s.io/v1", "events")
LEASE = Kind("Lease", "coordination.k8s.io/v1", "leases")
POD_DISRUPTION_BUDGET = Kind("PodDisruptionBudget", "policy/v1", "poddisruptionbudgets")
NETWORK_POLICY = Kind("NetworkPolicy", "networking.k8s.io/v1", "networkpolicies")
POD_MONITOR = Kind("PodMonitor", "monitoring.coreos.com/v1", "podmonitors")
PROMETHEUS_RULE = Kind("PrometheusRule", "monitoring.coreos.com/v1", "prometheusrules")
