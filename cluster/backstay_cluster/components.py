"""The parts of a control plane as data: command line, how it shows that it is ready, what it needs first."""

from dataclasses import dataclass, field

from backstay_cluster.cluster import API_PORT, SERVICE_RANGE, Cluster
from backstay_cluster.credentials import FRONT_PROXY
from backstay_cluster.probe import Http, Probe

ETCD_CLIENT = "https://127.0.0.1:2379"
ETCD_PEER = "http://127.0.0.1:2380"
ETCD_HEALTH = "http://127.0.0.1:2381"
ISSUER = "https://kubernetes.default.svc.cluster.local"


@dataclass(frozen=True)
class Component:
    """One program that runs as long as the cluster does."""

    name: str
    argv: tuple[str, ...]
    ready: Probe
    needs: tuple[str, ...] = ()
    """Components that must be ready before this one is started."""
    environment: dict[str, str] = field(default_factory=dict)


def control_plane(cluster: Cluster) -> list[Component]:
    """The components that make an API with working controllers, in the order of their start."""
    return [etcd(cluster), apiserver(cluster), controller_manager(cluster), scheduler(cluster)]


def etcd(cluster: Cluster) -> Component:
    """The store. It does not sync to disk: a cluster whose machine loses power is made anew."""
    pki = cluster.pki
    argv = (
        f"{cluster.bin}/etcd",
        f"--name={cluster.name}",
        f"--data-dir={cluster.run}/etcd",
        "--unsafe-no-fsync",
        "--log-level=warn",
        f"--listen-client-urls={ETCD_CLIENT}",
        f"--advertise-client-urls={ETCD_CLIENT}",
        f"--listen-peer-urls={ETCD_PEER}",
        f"--initial-advertise-peer-urls={ETCD_PEER}",
        f"--initial-cluster={cluster.name}={ETCD_PEER}",
        f"--listen-metrics-urls={ETCD_HEALTH}",
        "--client-cert-auth",
        f"--trusted-ca-file={pki}/etcd-ca.crt",
        f"--cert-file={pki}/etcd.crt",
        f"--key-file={pki}/etcd.key",
    )
    return Component("etcd", argv, Http(f"{ETCD_HEALTH}/health"))


def apiserver(cluster: Cluster) -> Component:
    """The API, with authorization as in production: a chart's roles are really tested."""
    pki = cluster.pki
    argv = (
        f"{cluster.bin}/kube-apiserver",
        f"--etcd-servers={ETCD_CLIENT}",
        f"--etcd-cafile={pki}/etcd-ca.crt",
        f"--etcd-certfile={pki}/etcd-client.crt",
        f"--etcd-keyfile={pki}/etcd-client.key",
        f"--advertise-address={cluster.node_address}",
        f"--secure-port={API_PORT}",
        f"--cert-dir={pki}",
        f"--tls-cert-file={pki}/apiserver.crt",
        f"--tls-private-key-file={pki}/apiserver.key",
        f"--client-ca-file={pki}/ca.crt",
        f"--token-auth-file={pki}/tokens.csv",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        f"--service-cluster-ip-range={SERVICE_RANGE}",
        f"--service-account-issuer={ISSUER}",
        f"--service-account-key-file={pki}/service-accounts.pub",
        f"--service-account-signing-key-file={pki}/service-accounts.key",
        f"--kubelet-certificate-authority={pki}/ca.crt",
        f"--kubelet-client-certificate={pki}/kubelet-client.crt",
        f"--kubelet-client-key={pki}/kubelet-client.key",
        f"--requestheader-client-ca-file={pki}/front-proxy-ca.crt",
        f"--requestheader-allowed-names={FRONT_PROXY}",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--proxy-client-cert-file={pki}/front-proxy.crt",
        f"--proxy-client-key-file={pki}/front-proxy.key",
        # Else it looks the node's name up in DNS for `kubectl logs`.
        "--kubelet-preferred-address-types=InternalIP",
        "--allow-privileged",
        "--profiling=false",
    )
    return Component("kube-apiserver", argv, Http(f"{cluster.server}/readyz", pki / "ca.crt"), ("etcd",))


def controller_manager(cluster: Cluster) -> Component:
    """All controllers, each with the service account of its own that production gives it."""
    pki = cluster.pki
    argv = (
        f"{cluster.bin}/kube-controller-manager",
        *_client_flags(cluster, "kube-controller-manager"),
        f"--service-account-private-key-file={pki}/service-accounts.key",
        f"--root-ca-file={pki}/ca.crt",
        "--use-service-account-credentials",
        # Each controller asks for an account and a token before any of them starts; the default of 20 a second
        # makes that 5 s.
        "--kube-api-qps=500",
        "--kube-api-burst=500",
        "--profiling=false",
    )
    ready = Http("https://127.0.0.1:10257/healthz", pki / "ca.crt")
    return Component("kube-controller-manager", argv, ready, ("kube-apiserver",))


def scheduler(cluster: Cluster) -> Component:
    """Places pods on the node; without a node they stay pending."""
    argv = (
        f"{cluster.bin}/kube-scheduler",
        *_client_flags(cluster, "kube-scheduler"),
        "--profiling=false",
    )
    ready = Http("https://127.0.0.1:10259/healthz", cluster.pki / "ca.crt")
    return Component("kube-scheduler", argv, ready, ("kube-apiserver",))


def _client_flags(cluster: Cluster, component: str) -> tuple[str, ...]:
    kubeconfig = f"{cluster.pki}/{component}.kubeconfig"
    return (
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--leader-elect=false",
        "--bind-address=127.0.0.1",
        f"--tls-cert-file={cluster.pki}/localhost.crt",
        f"--tls-private-key-file={cluster.pki}/localhost.key",
    )
