"""A sample of the crash sweep; make crash-sweep makes all of it."""

from pathlib import Path

import pytest
from backstay_cluster.control_plane import ControlPlane

from tests.integration.crash import session
from tests.integration.crash.plays import PLAYS
from tests.integration.crash.sweep import Stage
from tests.integration.harness.api import Access, read_access
from tests.integration.harness.fake_kubelet import FakeKubelet

SAMPLE = 5
"""Every so many points of the sweep."""


@pytest.fixture
def stage(
    control_plane: ControlPlane,
    crd: str,
    access: Access,
    operator_kubeconfig: Path,
    kubelet: FakeKubelet,
    tmp_path: Path,
) -> Stage:
    return Stage(control_plane, access, read_access(operator_kubeconfig), kubelet, tmp_path)


@pytest.mark.control_plane
@pytest.mark.case("S07", "T22", "R1")
def test_an_operator_killed_at_a_write_ends_as_the_undisturbed_one(stage: Stage) -> None:
    lines: list[str] = []
    faults = session.sweep(stage, PLAYS, lanes=4, every=SAMPLE, tell=lines.append)
    assert faults == 0, "\n".join(lines)
