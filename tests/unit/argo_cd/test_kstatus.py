"""What kstatus says of real statuses, by its published rules for a kind that it does not know."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.argo_cd import lua

RECORDED = {path.stem: json.loads(path.read_text()) for path in (Path(lua.__file__).parent / "recorded").glob("*.json")}
EXPECTED = {
    "first-version-starts": "InProgress",
    "serves": "Current",
    "candidate-comes-up": "InProgress",
    "rejected": "Failed",
    "the-fix-comes-up": "InProgress",
    "awaits-promotion": "InProgress",
    "soaks": "InProgress",
    "paused": "InProgress",
    "first-version-failed": "Failed",
    "scaled-to-none": "InProgress",  # Ready is False while no pod is ready, also where none is wanted
    "spec-invalid": "Failed",
}

pytestmark = pytest.mark.case("T20")


def kstatus(resource: dict[str, Any]) -> str:
    """https://github.com/kubernetes-sigs/cli-utils/tree/master/pkg/kstatus, its generic part."""
    metadata, status = resource["metadata"], resource.get("status") or {}
    if "deletionTimestamp" in metadata:
        return "Terminating"
    if status.get("observedGeneration", metadata["generation"]) != metadata["generation"]:
        return "InProgress"
    conditions = {one["type"]: one["status"] for one in status.get("conditions") or ()}
    if conditions.get("Reconciling") == "True":
        return "InProgress"
    if conditions.get("Stalled") == "True":
        return "Failed"
    return "Current" if conditions.get("Ready", "True") == "True" else "InProgress"


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_kstatus_understands_each_recorded_status(name: str) -> None:
    assert kstatus(RECORDED[name]["object"]) == EXPECTED[name]


def test_every_recorded_status_is_spoken_of() -> None:
    assert EXPECTED.keys() == RECORDED.keys()
