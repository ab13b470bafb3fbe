"""One control plane for all integration tests of a run, with a node that plays the kubelet for those who ask for it.

Each test has a namespace of its own, and an operator of its own where it wants one.
"""

import os
import shutil
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from backstay_cluster import control_plane as control_planes
from backstay_cluster import programs
from backstay_cluster.control_plane import ControlPlane

from tests.integration.harness.api import Access, read_access
from tests.integration.harness.definitions import wait_until_established
from tests.integration.harness.fake_kubelet import FakeKubelet
from tests.integration.harness.operator_process import RBAC, OperatorProcess

CRD_FILE = Path(__file__).parents[2] / "crds" / "backstay.dev_modeldeployments.yaml"


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    """A real API server with RBAC and the real controllers, and no node: pods stay pending."""
    with control_planes.running_for(f"test-{os.getpid()}") as plane:
        yield plane


@pytest.fixture(scope="session")
def crd(control_plane: ControlPlane) -> str:
    """The committed CRD, established. Returns its name."""
    name = control_plane.kubectl("apply", f"--filename={CRD_FILE}", "--output=name").strip().partition("/")[2]
    wait_until_established(control_plane, name)
    return name


@pytest.fixture
def namespace(control_plane: ControlPlane) -> Iterator[str]:
    """A fresh namespace; what is in it is deleted in the background."""
    name = f"test-{uuid.uuid4().hex[:10]}"
    control_plane.kubectl("create", "namespace", name)
    yield name
    control_plane.kubectl("delete", "namespace", name, "--wait=false", "--ignore-not-found")


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
    """The played node, there from the first test that asks for it."""
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
    try:
        process.wait_until_healthy()
        yield process
    finally:
        process.kill()


@pytest.fixture(scope="session")
def helm() -> Path:
    """The helm that the project builds, or else the one on PATH."""
    found = programs.built("helm") or shutil.which("helm")
    if found is None:
        pytest.fail("helm is not built: run `uv run python -m backstay_cluster build --only helm`")
    return Path(found)
