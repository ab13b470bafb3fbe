"""The chart's tests install and delete the CRD, so they have a control plane of their own."""

import os
from collections.abc import Iterator

import pytest
from backstay_cluster import control_plane as control_planes
from backstay_cluster.control_plane import ControlPlane


@pytest.fixture(scope="package")
def control_plane() -> Iterator[ControlPlane]:
    """A real API server with RBAC and the real controllers, and no node: pods stay pending."""
    with control_planes.running_for(f"chart-{os.getpid()}") as plane:
        yield plane
