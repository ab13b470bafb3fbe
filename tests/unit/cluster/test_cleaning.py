import json
from pathlib import Path

import pytest
from backstay_cluster import containers, leftovers, machine, mounts
from backstay_cluster.cluster import Cluster

MOUNTINFO = """\
20 1 254:0 / / rw - ext4 /dev/vda rw
30 20 0:5 / /run/backstay/one/net rw - nsfs nsfs rw
31 20 0:6 / /run/backstay/one/containerd/rootfs rw - overlay overlay rw
32 31 0:7 / /run/backstay/one/containerd/rootfs/a\\040b rw - tmpfs tmpfs rw
33 20 0:8 / /run/backstay/one-more/net rw - nsfs nsfs rw
34 20 0:9 / /run/backstay rw - tmpfs tmpfs rw
"""


def test_mounts_are_found_below_the_folder_only_and_inner_ones_come_first() -> None:
    found = mounts.below(MOUNTINFO, [Path("/run/backstay/one")])
    assert found == [
        Path("/run/backstay/one/containerd/rootfs/a b"),
        Path("/run/backstay/one/containerd/rootfs"),
        Path("/run/backstay/one/net"),
    ]


def test_the_right_to_lower_oom_scores_is_read_from_the_effective_capabilities() -> None:
    assert machine.may_lower_oom_score("CapPrm:\t0\nCapEff:\t000001ffffffffff\n")
    assert not machine.may_lower_oom_score("CapPrm:\t000001ffffffffff\nCapEff:\t000001fffeffffff\n")
    assert not machine.may_lower_oom_score("")


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "shared"
    monkeypatch.setattr(leftovers, "SHARED", (folder / "kubelet", folder / "was-there", folder / "cni"))
    (folder / "was-there").mkdir(parents=True)
    monkeypatch.setattr(machine, "settings", lambda: {"kernel/panic": "1"})
    return folder


def test_folders_that_were_not_there_before_go_and_others_stay(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    restored: dict[str, str] = {}
    monkeypatch.setattr(machine, "put_settings", restored.update)
    record = tmp_path / "before.json"
    leftovers.remember(record)
    (shared / "kubelet" / "device-plugins").mkdir(parents=True)
    (shared / "kubelet" / "device-plugins" / "kubelet.sock").touch()
    (shared / "cni" / "results").mkdir(parents=True)
    leftovers.restore(record)
    assert sorted(path.name for path in shared.iterdir()) == ["was-there"]
    assert restored == {"kernel/panic": "1"}
    assert not record.exists()


def test_a_strangers_file_in_a_shared_folder_is_kept(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "put_settings", lambda values: None)
    leftovers.remember(tmp_path / "before.json")
    (shared / "cni" / "results").mkdir(parents=True)
    (shared / "cni" / "results" / "another-network").touch()
    leftovers.restore(tmp_path / "before.json")
    assert (shared / "cni" / "results" / "another-network").exists()


def test_a_second_node_does_not_overwrite_what_the_first_found(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = tmp_path / "before.json"
    leftovers.remember(record)
    monkeypatch.setattr(machine, "settings", lambda: {"kernel/panic": "10"})
    (shared / "cni").mkdir()
    leftovers.remember(record)
    before = json.loads(record.read_text())
    assert before["settings"] == {"kernel/panic": "1"}
    assert str(shared / "cni") in before["absent"]


def test_shims_tell_their_sockets_in_the_run_folder_only(paper: Cluster, tmp_path: Path) -> None:
    tasks = paper.run / "containerd" / "io.containerd.runtime.v2.task" / "k8s.io"
    for name, content in (("a", '{"address": "unix:///run/containerd/s/1"}'), ("b", "{"), ("c", "{}")):
        (tasks / name).mkdir(parents=True)
        (tasks / name / "bootstrap.json").write_text(content)
    assert containers.shim_sockets(paper) == {Path("/run/containerd/s/1")}
