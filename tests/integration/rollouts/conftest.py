"""One resource's story, with an operator of its own or with one that the tests of a file share."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from backstay_cluster.control_plane import ControlPlane

from tests.integration.harness import monitoring
from tests.integration.harness.api import Access
from tests.integration.harness.definitions import wait_until_established
from tests.integration.harness.fake_kubelet import FakeKubelet
from tests.integration.harness.operator_process import OperatorProcess
from tests.integration.harness.story import Story


@pytest.fixture
def story(access: Access, kubelet: FakeKubelet, operator: OperatorProcess, namespace: str) -> Iterator[Story]:
    """One resource's life, from apply to delete."""
    kubelet.behaviours.clear()
    with access.client() as client:
        one = Story(client, namespace, kubelet, operator)
        yield one
        one.end()


COMPANIONS = {
    "networkPolicy": {"operator": {"namespace": "ops", "labels": {"app": "backstay"}}},
    "podMonitor": {"labels": {"release": "kps"}},
    "prometheusRule": {"labels": {"release": "kps"}},
}
"""Everything that an operator can make beside the pods."""


@pytest.fixture(scope="module")
def equipped_operator(
    control_plane: ControlPlane, crd: str, operator_kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OperatorProcess]:
    """Shared by the tests of a file, where no other operator may run. The Prometheus operator's kinds are there."""
    kinds = ("PodMonitor", "PrometheusRule")
    for kind in kinds:
        control_plane.kubectl("apply", "--filename=-", text=json.dumps(monitoring.definition(kind)))
        wait_until_established(control_plane, monitoring.name(kind))
    env = {"BACKSTAY_COMPANIONS": json.dumps(COMPANIONS)}
    process = OperatorProcess(control_plane, operator_kubeconfig, tmp_path_factory.mktemp("equipped"), env)
    process.start()
    try:
        process.wait_until_healthy()
        yield process
    finally:
        process.kill()
        for kind in kinds:
            control_plane.kubectl("delete", "crd", monitoring.name(kind), "--wait=false")


@pytest.fixture
def equipped(
    access: Access, kubelet: FakeKubelet, equipped_operator: OperatorProcess, namespace: str
) -> Iterator[Story]:
    """A story with the shared operator, which also ends it: the namespace is deleted."""
    kubelet.behaviours.clear()
    with access.client() as client:
        yield Story(client, namespace, kubelet, equipped_operator)
