"""Who may do what in a cluster: the files below pki/ and the kubeconfigs, each with its own user."""

import base64
import datetime
import secrets
from typing import Any

import yaml

from backstay_cluster import certificates
from backstay_cluster.cluster import API_SERVICE_ADDRESS, DOMAIN, Cluster

LOCALHOST = ("localhost", "127.0.0.1")
API_SERVER_HOSTS = (
    *LOCALHOST,
    API_SERVICE_ADDRESS,
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    f"kubernetes.default.svc.{DOMAIN}",
)
COMPONENT_USERS = {
    "kube-controller-manager": "system:kube-controller-manager",
    "kube-scheduler": "system:kube-scheduler",
    "kube-proxy": "system:kube-proxy",
}
"""Kubernetes binds these users to their roles when it starts."""
FRONT_PROXY = "front-proxy"
KUBELET_CLIENT = "backstay:kubelet-client"
"""The user as whom the API server asks kubelets for logs; `node_rbac` grants it that."""


def create(cluster: Cluster, now: datetime.datetime) -> None:
    """Make all keys, certificates, the administrator's token and the kubeconfigs, unless they are there. The
    administrator's kubeconfig is written last: its presence says that all others are complete."""
    if not (cluster.pki / "front-proxy.key").exists():
        _front_proxy(cluster, now)
    if cluster.kubeconfig.exists():
        return
    root = certificates.authority("backstay cluster", now)
    certificates.write_secret(cluster.pki / "ca.crt", certificates.pem(root.certificate))
    _issue(cluster, root, "apiserver", "kube-apiserver", now, hosts=(*API_SERVER_HOSTS, cluster.node_address))
    _issue(cluster, root, "localhost", "localhost", now, hosts=LOCALHOST)
    _issue(cluster, root, "kubelet", f"system:node:{cluster.node}", now, group="system:nodes",
           hosts=(cluster.node, cluster.node_address))  # fmt: skip
    _issue(cluster, root, "kubelet-client", KUBELET_CLIENT, now)
    for component, user in COMPONENT_USERS.items():
        _issue(cluster, root, component, user, now)
    # etcd trusts an authority of its own: whoever it lets in can read every Secret.
    store = certificates.authority("backstay etcd", now)
    certificates.write_secret(cluster.pki / "etcd-ca.crt", certificates.pem(store.certificate))
    _issue(cluster, store, "etcd", "etcd", now, hosts=LOCALHOST)
    _issue(cluster, store, "etcd-client", "kube-apiserver", now)
    private, public = certificates.signing_keys()
    certificates.write_secret(cluster.pki / "service-accounts.key", private)
    certificates.write_secret(cluster.pki / "service-accounts.pub", public)
    for component in ("kubelet", *COMPONENT_USERS):
        _write_kubeconfig(cluster, component, _certificate_user(cluster, component))
    token = secrets.token_hex(32)
    certificates.write_secret(cluster.pki / "tokens.csv", f'{token},admin,admin,"system:masters"\n'.encode())
    admin = kubeconfig(cluster.name, cluster.server, _read(cluster, "ca.crt"), {"token": token})
    certificates.write_secret(cluster.kubeconfig, yaml.safe_dump(admin, sort_keys=False).encode())


def _front_proxy(cluster: Cluster, now: datetime.datetime) -> None:
    """Of the API server where it calls extension servers, which are to trust what it says of its callers."""
    front = certificates.authority("backstay front proxy", now)
    certificates.write_secret(cluster.pki / "front-proxy-ca.crt", certificates.pem(front.certificate))
    _issue(cluster, front, "front-proxy", FRONT_PROXY, now)


def kubeconfig(name: str, server: str, authority: bytes, user: dict[str, str]) -> dict[str, Any]:
    """A kubeconfig with one context; everything it needs stands in it, so that it can be moved."""
    ca = base64.b64encode(authority).decode()
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": server, "certificate-authority-data": ca}}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }


def _issue(
    cluster: Cluster,
    issuer: certificates.Authority,
    file: str,
    user: str,
    now: datetime.datetime,
    *,
    group: str | None = None,
    hosts: tuple[str, ...] = (),
) -> None:
    certificate, key = certificates.issue(issuer, user, now, group=group, hosts=hosts)
    certificates.write_secret(cluster.pki / f"{file}.crt", certificate)
    certificates.write_secret(cluster.pki / f"{file}.key", key)


def _certificate_user(cluster: Cluster, component: str) -> dict[str, str]:
    return {
        "client-certificate-data": base64.b64encode(_read(cluster, f"{component}.crt")).decode(),
        "client-key-data": base64.b64encode(_read(cluster, f"{component}.key")).decode(),
    }


def _write_kubeconfig(cluster: Cluster, component: str, user: dict[str, str]) -> None:
    document = kubeconfig(cluster.name, cluster.server, _read(cluster, "ca.crt"), user)
    path = cluster.pki / f"{component}.kubeconfig"
    certificates.write_secret(path, yaml.safe_dump(document, sort_keys=False).encode())


def _read(cluster: Cluster, file: str) -> bytes:
    return (cluster.pki / file).read_bytes()
