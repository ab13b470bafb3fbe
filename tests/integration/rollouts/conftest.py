"""A real control plane, a node that plays the kubelet, and the operator as a process with its role's rights."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from backstay_cluster.control_plane import ControlPlane

from .api import Access, read_access
from .fake_kubelet import FakeKubelet
from .operator_process import OperatorProcess
from .story import Story

RBAC = Path(__file__).parent / "rbac.yaml"


@pytest.fixture(scope="session")
def access(control_plane: ControlPlane) -> Access:
    """The administrator's."""
    return read_access(control_plane.kubeconfig)


@pytest.fixture(scope="session")
def operator_kubeconfig(control_plane: ControlPlane, access: Access, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A kubeconfig with the rights of the operator's role only."""
    control_plane.kubectl("apply", f"--filename={RBAC}")
    token = control_plane.kubectl("create", "token", "it-backstay-operator", "--duration=2h").strip()
    path = tmp_path_factory.mktemp("operator") / "kubeconfig"
    path.write_text(replace(access, token=token).kubeconfig())
    return path


@pytest.fixture(scope="session")
def kubelet(control_plane: ControlPlane, access: Access) -> Iterator[FakeKubelet]:
    fake = FakeKubelet(control_plane, access)
    fake.start()
    yield fake
    fake.stop()
    assert not fake.errors


@pytest.fixture
def operator(
    control_plane: ControlPlane, crd: str, operator_kubeconfig: Path, tmp_path: Path
) -> Iterator[OperatorProcess]:
    """Started and healthy."""
    process = OperatorProcess(control_plane, operator_kubeconfig, tmp_path)
    process.start()
    process.wait_until_healthy()
    yield process
    process.kill()


@pytest.fixture
def story(access: Access, kubelet: FakeKubelet, operator: OperatorProcess, namespace: str) -> Iterator[Story]:
    """One resource's life, from apply to delete."""
    kubelet.behaviours.clear()
    with access.client() as client:
        one = Story(client, namespace, kubelet, operator)
        yield one
        one.end()
