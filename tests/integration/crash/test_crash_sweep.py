"""A sample of the crash sweep; make crash-sweep makes all of it."""

from pathlib import Path

import pytest
from backstay_cluster.control_plane import ControlPlane

from tests.integration.crash import session
from tests.integration.crash.plays import PLAYS
from tests.integration.crash.proxy import Trap, When, Write, described
from tests.integration.crash.sweep import Stage
from tests.integration.harness.api import MDEPS, Access, read_access
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
def test_an_operator_killed_at_a_write_ends_as_the_undisturbed_one(
    control_plane: ControlPlane,
    crd: str,
    access: Access,
    operator_kubeconfig: Path,
    kubelet: FakeKubelet,
    tmp_path: Path,
) -> None:
    stage = Stage(control_plane, access, read_access(operator_kubeconfig), kubelet, tmp_path)
    lines: list[str] = []
    faults = session.sweep(stage, PLAYS, lanes=4, every=SAMPLE, tell=lines.append)
    assert faults == 0, "\n".join(lines)


@pytest.mark.parametrize(
    ("verb", "path", "body", "said"),
    [
        ("PATCH", f"{MDEPS.format(namespace='n')}/chat/status", b"", "PATCH modeldeployments/chat/status"),
        ("POST", "/api/v1/namespaces/n/services", b'{"metadata": {"name": "chat"}}', "POST services/chat"),
        ("DELETE", "/api/v1/namespaces/n/services/chat", b"", "DELETE services/chat"),
    ],
)  # fmt: skip
def test_a_write_is_known_by_verb_and_object(verb: str, path: str, body: bytes, said: str) -> None:
    assert str(described(verb, path, body)) == said


@pytest.mark.parametrize(
    ("verb", "path"),
    [
        ("GET", "/api/v1/namespaces/n/services/chat"),
        ("GET", "/api/v1/namespaces/n/pods"),
        ("PATCH", "/apis/coordination.k8s.io/v1/namespaces/n/leases/backstay"),
    ],
)
def test_what_changes_nothing_of_a_resource_is_no_write(verb: str, path: str) -> None:
    assert described(verb, path, b"") is None


def test_a_trap_springs_at_its_number_and_once() -> None:
    write = Write("PATCH", "services", "chat")
    trap = Trap(2, When.AFTER)
    assert [trap.count(one) for one in (write, None, write)] == [None, None, write]
    trap.spring(write)
    assert trap.count(write) is None
    assert (trap.sprung, trap.counted) == (write, 2)


def test_a_trap_has_sprung_only_once_the_process_is_gone() -> None:
    seen: list[Write | None] = []
    trap = Trap(1, kill=lambda: seen.append(trap.sprung))
    trap.spring(Write("PATCH", "services", "chat"))
    assert seen == [None]
