"""The parts of a node as data: command lines and the configuration files that they read."""

import json
from typing import Any

import yaml

from backstay_cluster.cluster import DNS_ADDRESS, DOMAIN, POD_RANGE, Cluster
from backstay_cluster.components import Component
from backstay_cluster.probe import Http, Socket

PAUSE_IMAGE = "localhost/backstay/pause:1"
LABELS = {"backstay.dev/accelerator": "none", "nvidia.com/gpu.present": "false"}
"""What a device plugin would say of a node without a GPU."""
KUBELET_PORT = 10250
_NO_SNAPSHOTTERS = ("blockfile", "btrfs", "devmapper", "erofs", "zfs")


def node(cluster: Cluster) -> list[Component]:
    """The components that make the machine a node of the cluster, in the order of their start."""
    return [containerd(cluster), kubelet(cluster), kube_proxy(cluster)]


def containerd(cluster: Cluster) -> Component:
    """Holds images and runs containers."""
    argv = (f"{cluster.bin}/containerd", f"--config={cluster.run}/containerd.toml", "--log-level=info")
    return Component("containerd", argv, Socket(cluster.containerd_socket))


def kubelet(cluster: Cluster) -> Component:
    """Runs the pods that the scheduler gives this node."""
    argv = (
        f"{cluster.bin}/kubelet",
        f"--config={cluster.run}/kubelet.yaml",
        f"--kubeconfig={cluster.pki}/kubelet.kubeconfig",
        f"--hostname-override={cluster.node}",
        # Given, so that kube-proxy need not wait for it: half a minute otherwise.
        f"--node-ip={cluster.node_address}",
        f"--node-labels={','.join(f'{key}={value}' for key, value in LABELS.items())}",
        f"--root-dir={cluster.kubelet_root}",
        f"--cert-dir={cluster.pki}",
    )
    needs = ("kube-apiserver", "containerd")
    return Component("kubelet", argv, Http("http://127.0.0.1:10248/healthz"), needs)


def kube_proxy(cluster: Cluster) -> Component:
    """Carries Service addresses to pods."""
    argv = (f"{cluster.bin}/kube-proxy", f"--config={cluster.run}/kube-proxy.yaml")
    return Component("kube-proxy", argv, Http("http://127.0.0.1:10256/livez"), ("kubelet",))


def files(cluster: Cluster, *, lower_oom_score: bool) -> dict[str, str]:
    """Configuration files by their names below the run folder."""
    return {
        "containerd.toml": containerd_config(cluster, lower_oom_score=lower_oom_score),
        "kubelet.yaml": yaml.safe_dump(kubelet_config(cluster), sort_keys=False),
        "kube-proxy.yaml": yaml.safe_dump(kube_proxy_config(cluster), sort_keys=False),
        "cni/10-pods.conflist": json.dumps(network_config(cluster), indent=2),
        # Of pods that use the node's resolver: the namespace has no way out, so there is nobody to ask.
        "resolv.conf": "",
        # Of commands that `exec` runs: Services by name.
        "services-resolv.conf": f"nameserver {DNS_ADDRESS}\nsearch svc.{DOMAIN} {DOMAIN}\noptions ndots:5\n",
    }


def containerd_config(cluster: Cluster, *, lower_oom_score: bool) -> str:
    """containerd's TOML. All that it keeps besides images lies in the run folder, so that `down` finds it."""
    disabled = ", ".join(f'"io.containerd.snapshotter.v1.{name}"' for name in _NO_SNAPSHOTTERS)
    state = cluster.run / "containerd"
    return f"""\
version = 3
root = "{cluster.containerd_root}"
state = "{state}"
disabled_plugins = [{disabled}]

[grpc]
address = "{cluster.containerd_socket}"

[plugins."io.containerd.internal.v1.opt"]
path = "{state}/opt"

[plugins."io.containerd.nri.v1.nri"]
disable = true

[plugins."io.containerd.cri.v1.images"]
snapshotter = "overlayfs"

[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{PAUSE_IMAGE}"

[plugins."io.containerd.cri.v1.runtime"]
restrict_oom_score_adj = {"false" if lower_oom_score else "true"}
netns_mounts_under_state_dir = true

[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["{cluster.bin}"]
conf_dir = "{cluster.run}/cni"
use_internal_loopback = true

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
Root = "{state}/runc"
SystemdCgroup = false
"""


def network_config(cluster: Cluster) -> dict[str, Any]:
    """Every pod on a routed link of its own. With a common bridge, a Service's answer between two pods would take
    the short way past the node's address rewriting wherever br_netfilter is not loaded."""
    addresses = {"type": "host-local", "ranges": [[{"subnet": POD_RANGE}]], "dataDir": f"{cluster.run}/addresses"}
    pods = {"type": "ptp", "ipMasq": False, "ipam": {**addresses, "routes": [{"dst": "0.0.0.0/0"}]}}
    return {"cniVersion": "1.0.0", "name": network_name(cluster), "plugins": [pods]}


def network_name(cluster: Cluster) -> str:
    """The pod network's name; the CNI library names its cache files by it."""
    return f"backstay-{cluster.name}"


def kubelet_config(cluster: Cluster) -> dict[str, Any]:
    """The kubelet's configuration; works with cgroups of both versions."""
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": cluster.node_address,
        "port": KUBELET_PORT,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": f"{cluster.pki}/ca.crt"},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": f"{cluster.pki}/kubelet.crt",
        "tlsPrivateKeyFile": f"{cluster.pki}/kubelet.key",
        "clusterDNS": [DNS_ADDRESS],
        "clusterDomain": DOMAIN,
        "resolvConf": f"{cluster.run}/resolv.conf",
        "containerRuntimeEndpoint": f"unix://{cluster.containerd_socket}",
        "failCgroupV1": False,
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": cluster.cgroup,
        "enforceNodeAllocatable": [],
        "failSwapOn": False,
        "makeIPTablesUtilChains": False,
        "podLogsDir": f"{cluster.kubelet_root}/pod-logs",
        "volumePluginDir": f"{cluster.kubelet_root}/volume-plugins",
        # Images are brought by hand and could not be pulled again: never remove one for lack of space.
        "evictionHard": {"memory.available": "50Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "imageGCHighThresholdPercent": 100,
    }


def kube_proxy_config(cluster: Cluster) -> dict[str, Any]:
    """kube-proxy's configuration. Its connection-tracking limits are the machine's, so they are left alone."""
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "clientConnection": {"kubeconfig": f"{cluster.pki}/kube-proxy.kubeconfig"},
        "clusterCIDR": POD_RANGE,
        "hostnameOverride": cluster.node,
        "bindAddress": cluster.node_address,
        "healthzBindAddress": "127.0.0.1:10256",
        "metricsBindAddress": "127.0.0.1:10249",
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
    }
