"""What people wrote stays as they wrote it, so that a tool which compares finds no difference."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from backstay_cluster.control_plane import ControlPlane
from backstay_contract import names

from tests.integration.harness.story import Story

pytestmark = [pytest.mark.control_plane, pytest.mark.case("T21")]

SAMPLES = sorted((Path(__file__).parents[3] / "manifests" / "samples").glob("*.yaml"))


def test_the_operator_never_writes_to_the_spec(equipped: Story) -> None:
    equipped.create("1.0.0", replicas=1)
    with equipped.traffic():
        equipped.wait_until_serving("1.0.0")
        equipped.ask_for("1.1.0")
        equipped.wait_until_serving("1.1.0")
    operators = [one for one in equipped.get()["metadata"]["managedFields"] if one["manager"] == names.FIELD_MANAGER]
    assert operators
    assert all("f:spec" not in one["fieldsV1"] for one in operators)


def resource(sample: Path) -> dict[str, Any]:
    """The sample's ModelDeployment; its Secret names a namespace of its own."""
    found: dict[str, Any] = next(one for one in yaml.safe_load_all(sample.read_text()) if one["kind"] == names.KIND)
    return found


@pytest.fixture
def applied(equipped: Story, control_plane: ControlPlane, sample: Path) -> Story:
    """The sample as `kubectl apply` stores it, after the operator has worked on it."""
    body = resource(sample)
    one = Story(equipped.client, equipped.namespace, equipped.kubelet, equipped.operator, body["metadata"]["name"])
    control_plane.kubectl("apply", "--filename=-", f"--namespace={equipped.namespace}", text=json.dumps(body))
    one.wait("a pass", lambda: one.status().get("observedGeneration") == 1)
    return one


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
def test_a_sample_that_was_applied_does_not_drift(applied: Story, control_plane: ControlPlane, sample: Path) -> None:
    """`kubectl diff` ends with 1, which is an error here, where there is a difference."""
    applied.pause(1)
    text = json.dumps(resource(sample))
    assert control_plane.kubectl("diff", "--filename=-", f"--namespace={applied.namespace}", text=text) == ""
