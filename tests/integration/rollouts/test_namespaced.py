"""An operator that may see one namespace only."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from backstay_cluster.control_plane import ControlPlane

from tests.integration.harness.api import Access
from tests.integration.harness.fake_kubelet import FakeKubelet
from tests.integration.harness.operator_process import OperatorProcess
from tests.integration.harness.story import NAME, Story

pytestmark = pytest.mark.control_plane


@pytest.fixture
def narrow(
    control_plane: ControlPlane,
    crd: str,
    access: Access,
    operator_kubeconfig: Path,
    kubelet: FakeKubelet,
    namespace: str,
    tmp_path: Path,
) -> Iterator[Story]:
    """Its rights are the operator's, in its namespace and nowhere else."""
    within = f"--namespace={namespace}"
    account = f"{namespace}:narrow"
    control_plane.kubectl("create", "serviceaccount", "narrow", within)
    for role in ("it-backstay-operator", "it-backstay-operator-lease"):
        options = (f"--clusterrole={role}", f"--serviceaccount={account}", within)
        control_plane.kubectl("create", "rolebinding", role, *options)
    token = control_plane.kubectl("create", "token", "narrow", within).strip()
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(replace(access, token=token).kubeconfig())
    env = {"BACKSTAY_WATCH_NAMESPACES": namespace, "POD_NAMESPACE": namespace}
    process = OperatorProcess(control_plane, kubeconfig, tmp_path, env)
    process.start()
    process.wait_until_healthy()
    kubelet.behaviours.clear()
    with access.client() as client:
        story = Story(client, namespace, kubelet, process)
        yield story
        story.end()


def test_an_operator_with_rights_in_one_namespace_serves_there(narrow: Story) -> None:
    narrow.create("1.0.0", replicas=1)
    with narrow.kubelet.traffic(narrow.namespace, NAME):
        narrow.wait_until_serving("1.0.0")
    narrow.delete()
    narrow.wait("the end", lambda: narrow.client.get(narrow.path).status_code == 404)
    assert "forbidden" not in narrow.operator.log.read_text().lower()
