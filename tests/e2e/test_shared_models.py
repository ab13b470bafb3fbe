"""Pods that share a folder of models: of their node, or of a claim."""

import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from backstay_contract.cache import NODE_FOLDER
from backstay_contract.names import Label

from tests.e2e.bench import WHERE, Bench
from tests.e2e.story import settings

pytestmark = pytest.mark.node
ENFORCED = "pod-security.kubernetes.io/enforce"
READY = "model is ready to be loaded"


def made(folder: Path) -> None:
    """As an administrator makes it: docs/how-to/share-models.md."""
    subprocess.run(["install", "-d", "-m", "2770", "-g", "65532", str(folder)], check=True)


@pytest.fixture
def node_folder(bench: Bench) -> Iterator[dict[str, Any]]:
    """The node's own, in a namespace whose pods may use it. What was there before stays."""
    there = Path(NODE_FOLDER).exists()
    made(Path(NODE_FOLDER))
    bench.kube.run("label", "namespace", settings.DEMO, f"{ENFORCED}=privileged", "--overwrite")
    yield {"kind": "Node", "size": "1Gi"}
    bench.kube.run("label", "namespace", settings.DEMO, f"{ENFORCED}=restricted", "--overwrite")
    if not there:
        shutil.rmtree(NODE_FOLDER)


@pytest.fixture
def claim(bench: Bench, tmp_path: Path) -> Iterator[dict[str, Any]]:
    """A claim on a volume that is there already."""
    made(tmp_path / "models")
    for part in tmp_path.parents:
        if part.stat().st_uid == 0 and part.name.startswith("pytest"):
            part.chmod(0o755)  # pods are not root
    tmp_path.chmod(0o755)
    size = {"storage": "1Gi"}
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": bench.name},
        "spec": {
            "capacity": size,
            "accessModes": ["ReadWriteMany"],
            "storageClassName": "",
            "persistentVolumeReclaimPolicy": "Retain",
            "hostPath": {"path": str(tmp_path / "models")},
        },
    }
    wanted = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": bench.name, "namespace": settings.DEMO},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "storageClassName": "",
            "volumeName": bench.name,
            "resources": {"requests": size},
        },
    }
    bench.kube.apply(volume, wanted)
    yield {"kind": "Claim", "claimName": bench.name, "size": "1Gi"}
    bench.kube.run("delete", "mdep", bench.name, WHERE, "--ignore-not-found", "--timeout=70s", timeout_s=80)
    bench.kube.run("delete", "pvc", bench.name, WHERE, "--timeout=60s", timeout_s=70)
    bench.kube.run("delete", "pv", bench.name, "--timeout=60s", timeout_s=70)


@pytest.mark.parametrize("kind", ["node_folder", "claim"])
def test_of_all_pods_on_a_node_one_fetches_the_model_and_the_others_nothing(
    bench: Bench, kind: str, request: pytest.FixtureRequest
) -> None:
    cache = request.getfixturevalue(kind)
    pushed = bench.push("1")
    resource = bench.resource(pushed, replicas=2)
    resource["spec"]["model"]["storage"]["cache"] = cache
    status = bench.until_ended(pushed, bench.apply(resource))
    assert status["active"]["digest"] == pushed.digest
    first = fetched(bench)
    assert min(first.values()) == 0
    assert sum(first.values()) >= pushed.size
    at = time.time()
    bench.kube.run("delete", "pod", *first, WHERE, "--timeout=60s", timeout_s=70)
    bench.until(lambda one: one.get("ready") == "2/2", 60, at)
    later = fetched(bench)
    assert set(later).isdisjoint(first)
    assert set(later.values()) == {0}


def fetched(bench: Bench) -> dict[str, int]:
    """Bytes that each running pod of the resource fetched, by its own word."""
    found = {}
    for pod in bench.kube.items("pods", WHERE, f"--selector={Label.RESOURCE}={bench.name}"):
        name = pod["metadata"]["name"]
        if "deletionTimestamp" in pod["metadata"]:
            continue
        lines = bench.kube.run("logs", name, "--container=pull", WHERE).splitlines()
        said = [json.loads(line) for line in lines if READY in line]
        found[name] = said[-1]["fetched"]
    return found
