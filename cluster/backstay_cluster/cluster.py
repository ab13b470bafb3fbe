"""Which cluster: its name, its addresses and the folders it owns."""

import hashlib
import ipaddress
import json
import os
import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from backstay_cluster.errors import ClusterError

DEFAULT_NAME = "dev"
NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,18}[a-z0-9])?")
"""At most 20 characters: sockets below the run folder must stay under the kernel's limit of 107."""

LINKS = ipaddress.IPv4Network("198.18.0.0/15")
"""Reserved for benchmarks (RFC 2544), so no real network uses it; each cluster takes four addresses of it."""
SERVICE_RANGE = "10.96.0.0/16"
API_SERVICE_ADDRESS = "10.96.0.1"
DNS_ADDRESS = "10.96.0.10"
POD_RANGE = "10.244.0.0/24"
DOMAIN = "cluster.local"
API_PORT = 6443


@dataclass(frozen=True)
class Cluster:
    """One cluster of this machine. The two addresses are the ends of the link between machine and namespace."""

    name: str
    run: Path
    """Everything that lives only while the cluster does: sockets, keys, logs, etcd's data."""
    store: Path
    """On the big disk: containerd's images, which outlive `down`, and the kubelet's folders, which do not."""
    host_address: str
    node_address: str

    @property
    def netns(self) -> Path:
        """The network namespace, as a file to enter."""
        return self.run / "net"

    @property
    def link(self) -> str:
        """Interface on the machine's side, at most 15 characters."""
        return f"bs-{hashlib.sha256(self.name.encode()).hexdigest()[:8]}"

    @property
    def node(self) -> str:
        """The node's name."""
        return f"{self.name}-node"

    @property
    def pki(self) -> Path:
        """Certificates and keys; mode 700."""
        return self.run / "pki"

    @property
    def bin(self) -> Path:
        """Links to the built programs, to be put on PATH."""
        return self.run / "bin"

    @property
    def logs(self) -> Path:
        """One file a component."""
        return self.run / "logs"

    @property
    def pids(self) -> Path:
        """One file a component, written by `process.start`."""
        return self.run / "pids"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's; mode 600."""
        return self.run / "kubeconfig"

    @property
    def server(self) -> str:
        """The API server's address, reachable from the machine and from inside the namespace."""
        return f"https://{self.node_address}:{API_PORT}"

    @property
    def containerd_root(self) -> Path:
        """Images and snapshots; outlives `down`."""
        return self.store / "containerd"

    @property
    def containerd_socket(self) -> Path:
        """Where the kubelet and ctr reach containerd."""
        return self.run / "containerd" / "containerd.sock"

    @property
    def kubelet_root(self) -> Path:
        """Pods' volumes and logs; removed by `down`."""
        return self.store / "kubelet"

    @property
    def cgroup(self) -> str:
        """Parent of all pods' cgroups, below each hierarchy's root."""
        return f"/backstay/{self.name}"


def checked_name(name: str) -> str:
    """The name, or a ClusterError that says which names are possible."""
    if not NAME.fullmatch(name):
        raise ClusterError(
            f"cluster name {name!r}: use 1 to 20 of a-z, 0-9 and '-', with a letter or digit at both ends"
        )
    return name


def link_addresses(name: str, taken: Collection[str] = ()) -> tuple[str, str]:
    """Addresses (machine, node) derived from the name; the next free ones when another cluster has them."""
    slots = LINKS.num_addresses // 4
    first = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big") % slots
    for step in range(slots):
        base = LINKS.network_address + 4 * ((first + step) % slots)
        host, node = str(base + 1), str(base + 2)
        if host not in taken and node not in taken:
            return host, node
    raise ClusterError(f"no free link address in {LINKS}: {len(taken)} are taken")


def run_root() -> Path:
    """Parent of all clusters' run folders."""
    return Path(os.environ.get("BACKSTAY_RUN") or "/run/backstay")


def cache_root() -> Path:
    """Parent of everything that is worth keeping: built programs, images, containerd's store."""
    configured = os.environ.get("BACKSTAY_CACHE")
    return Path(configured) if configured else Path.home() / ".cache" / "backstay"


def default_store(name: str) -> Path:
    """Where a new cluster keeps its images."""
    return cache_root() / "node" / name


def recorded(name: str) -> Cluster | None:
    """The cluster as its run folder remembers it, or None when there is none."""
    run = run_root() / checked_name(name)
    try:
        stored = json.loads((run / "cluster.json").read_text())
        return Cluster(name, run, Path(stored["store"]), stored["hostAddress"], stored["nodeAddress"])
    except (FileNotFoundError, KeyError, json.JSONDecodeError):
        return None


def existing() -> list[Cluster]:
    """All clusters that have a run folder."""
    folders = sorted(run_root().iterdir()) if run_root().is_dir() else []
    found = (recorded(folder.name) for folder in folders if folder.is_dir() and NAME.fullmatch(folder.name))
    return [cluster for cluster in found if cluster is not None]


def settle(name: str) -> Cluster:
    """The recorded cluster of that name, or a new one whose addresses are recorded from now on."""
    known = recorded(name)
    if known is not None:
        return known
    others = existing()
    taken = {address for other in others for address in (other.host_address, other.node_address)}
    host, node = link_addresses(name, taken)
    fresh = Cluster(name, run_root() / name, default_store(name), host, node)
    fresh.run.mkdir(parents=True, exist_ok=True)
    fresh.run.chmod(0o700)
    document = {"store": str(fresh.store), "hostAddress": host, "nodeAddress": node}
    partial = fresh.run / "cluster.json.part"
    partial.write_text(json.dumps(document))
    partial.rename(fresh.run / "cluster.json")
    return fresh
