"""What node programs leave in folders that are the whole machine's, and putting the machine back as it was."""

import contextlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from backstay_cluster import machine
from backstay_cluster.cluster import Cluster, run_root
from backstay_cluster.node_components import network_name

SHARED = (
    Path("/run/containerd"),
    Path("/var/lib/cni"),
    Path("/var/lib/kubelet"),
    Path("/var/log/containers"),
)
"""Folders whose place is fixed in containerd, the CNI library and the kubelet."""
_KUBELET_FILES = ("DEPRECATION", "kubelet.sock", "kubelet_internal_checkpoint")


def remember(record: Path | None = None) -> None:
    """Write down how the machine is before its first node: kernel settings, and which shared folders are not there."""
    record = record or _record()
    if record.exists():
        return
    record.parent.mkdir(parents=True, exist_ok=True)
    absent = [str(folder) for folder in SHARED if not folder.exists()]
    partial = record.with_suffix(".part")
    partial.write_text(json.dumps({"settings": machine.settings(), "absent": absent}))
    partial.rename(record)


def remove_files(cluster: Cluster) -> None:
    """Remove this cluster's files from the shared folders."""
    for path in files(cluster):
        path.unlink(missing_ok=True)


def files(cluster: Cluster) -> list[Path]:
    """This cluster's files in the shared folders."""
    return [*_log_links(cluster), *_network_results(cluster)]


def restore(record: Path | None = None) -> None:
    """Put the machine back as `remember` found it; call it when no node is left."""
    record = record or _record()
    if not record.exists():
        return
    before = json.loads(record.read_text())
    machine.put_settings(before["settings"])
    for name in before["absent"]:
        folder = Path(name)
        if folder.name == "kubelet":
            for file in _KUBELET_FILES:
                (folder / "device-plugins" / file).unlink(missing_ok=True)
        _remove_empty(folder)
    record.unlink()


def _record() -> Path:
    return run_root() / "machine-before.json"


def _log_links(cluster: Cluster) -> Iterator[Path]:
    for link in Path("/var/log/containers").glob("*.log"):
        if link.is_symlink() and cluster.kubelet_root in link.readlink().parents:
            yield link


def _network_results(cluster: Cluster) -> Sequence[Path]:
    return [path for path in Path("/var/lib/cni").rglob(f"{network_name(cluster)}-*") if path.is_file()]


def _remove_empty(folder: Path) -> None:
    """Remove the folder and those in it, as far as no file is left."""
    if not folder.is_dir():
        return
    inner = [path for path in folder.rglob("*") if path.is_dir() and not path.is_symlink()]
    for path in [*sorted(inner, key=lambda path: len(path.parts), reverse=True), folder]:
        with contextlib.suppress(OSError):
            path.rmdir()
