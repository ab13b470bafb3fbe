import json
import tomllib

import yaml
from backstay_cluster import components, node_components
from backstay_cluster.cluster import Cluster
from backstay_cluster.components import Component


def _all(paper: Cluster) -> list[Component]:
    return [*components.control_plane(paper), *node_components.node(paper)]


def test_each_component_needs_only_components_that_come_before_it(paper: Cluster) -> None:
    seen: set[str] = set()
    for component in _all(paper):
        assert seen.issuperset(component.needs), component.name
        seen.add(component.name)


def test_the_control_plane_alone_needs_nothing_of_the_node(paper: Cluster) -> None:
    plane = components.control_plane(paper)
    names = {component.name for component in plane}
    assert all(names.issuperset(component.needs) for component in plane)


def test_authorization_is_never_left_to_a_permissive_default(paper: Cluster) -> None:
    assert "--authorization-mode=Node,RBAC" in components.apiserver(paper).argv
    kubelet = node_components.kubelet_config(paper)
    assert kubelet["authentication"]["anonymous"] == {"enabled": False}
    assert kubelet["authorization"] == {"mode": "Webhook"}


def test_the_store_lets_nobody_in_without_a_certificate_of_its_own_authority(paper: Cluster) -> None:
    argv = components.etcd(paper).argv
    assert "--client-cert-auth" in argv
    assert f"--trusted-ca-file={paper.pki}/etcd-ca.crt" in argv
    listening = [word for word in argv if word.startswith("--listen-client-urls=")]
    assert listening == ["--listen-client-urls=https://127.0.0.1:2379"]


def test_every_flag_names_a_value_or_stands_alone_and_none_occurs_twice(paper: Cluster) -> None:
    for component in _all(paper):
        flags = [word.partition("=")[0] for word in component.argv[1:]]
        assert all(flag.startswith("--") for flag in flags), component.argv
        assert len(flags) == len(set(flags)), component.name


def test_programs_are_started_by_the_name_that_chooses_the_component(paper: Cluster) -> None:
    for component in _all(paper):
        assert component.argv[0] == f"{paper.bin}/{component.name}"


def test_containerd_keeps_all_but_images_below_the_run_folder(paper: Cluster) -> None:
    config = tomllib.loads(node_components.containerd_config(paper, lower_oom_score=False))
    assert config["root"] == str(paper.containerd_root)
    runtime = config["plugins"]["io.containerd.cri.v1.runtime"]
    kept = [
        config["state"],
        config["grpc"]["address"],
        config["plugins"]["io.containerd.internal.v1.opt"]["path"],
        runtime["containerd"]["runtimes"]["runc"]["options"]["Root"],
        runtime["cni"]["conf_dir"],
    ]
    assert all(path.startswith(f"{paper.run}/") for path in kept)
    assert runtime["netns_mounts_under_state_dir"] is True


def test_runc_is_asked_for_a_lower_oom_score_only_where_it_may(paper: Cluster) -> None:
    for allowed in (True, False):
        config = tomllib.loads(node_components.containerd_config(paper, lower_oom_score=allowed))
        assert config["plugins"]["io.containerd.cri.v1.runtime"]["restrict_oom_score_adj"] is not allowed


def test_no_written_file_is_empty_but_the_resolver_of_the_node(paper: Cluster) -> None:
    files = node_components.files(paper, lower_oom_score=True)
    assert [name for name, content in files.items() if not content] == ["resolv.conf"]
    assert yaml.safe_load(files["kubelet.yaml"])["kind"] == "KubeletConfiguration"
    assert yaml.safe_load(files["kube-proxy.yaml"])["mode"] == "nftables"


def test_the_pod_network_leaves_its_address_book_in_the_run_folder(paper: Cluster) -> None:
    network = json.loads(node_components.files(paper, lower_oom_score=True)["cni/10-pods.conflist"])
    (pods,) = network["plugins"]
    assert pods["ipam"]["dataDir"].startswith(f"{paper.run}/")
    assert pods["type"] == "ptp"


def test_the_node_is_labelled_as_one_without_a_gpu(paper: Cluster) -> None:
    (labels,) = [word for word in node_components.kubelet(paper).argv if word.startswith("--node-labels=")]
    assert "backstay.dev/accelerator=none" in labels
