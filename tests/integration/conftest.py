"""One control plane for all integration tests of a run; each test has a namespace of its own."""

import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from backstay_cluster import control_plane as control_planes
from backstay_cluster import programs
from backstay_cluster.control_plane import ControlPlane

CRD_FILE = Path(__file__).parents[2] / "crds" / "backstay.dev_modeldeployments.yaml"


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    """A real API server with RBAC and the real controllers, and no node: pods stay pending."""
    with control_planes.running_for(f"test-{os.getpid()}") as plane:
        yield plane


@pytest.fixture(scope="session")
def crd(control_plane: ControlPlane) -> str:
    """The committed CRD, established. Returns its name."""
    name = control_plane.kubectl("apply", f"--filename={CRD_FILE}", "--output=name").strip()
    control_plane.kubectl("wait", "--for=condition=Established", name, "--timeout=30s")
    return name.partition("/")[2]


@pytest.fixture
def namespace(control_plane: ControlPlane) -> Iterator[str]:
    """A fresh namespace; what is in it is deleted in the background."""
    name = f"test-{uuid.uuid4().hex[:10]}"
    control_plane.kubectl("create", "namespace", name)
    yield name
    control_plane.kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture(scope="session")
def helm() -> Path:
    """The helm that the project builds, or else the one on PATH."""
    found = programs.built("helm") or shutil.which("helm")
    if found is None:
        pytest.fail("helm is not built: run `uv run python -m backstay_cluster build --only helm`")
    return Path(found)
