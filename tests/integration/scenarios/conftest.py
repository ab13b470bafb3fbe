"""One operator for the scenarios of a file; each has a namespace of its own, and says at its end what was seen."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from backstay_cluster.control_plane import ControlPlane

from tests.integration.harness.api import Access
from tests.integration.harness.fake_kubelet import FakeKubelet
from tests.integration.harness.operator_process import OperatorProcess
from tests.integration.harness.story import Story
from tests.integration.scenarios import seen
from tests.integration.scenarios.steps import ALERTS_TOKEN


@pytest.fixture(scope="module")
def shared_operator(
    control_plane: ControlPlane, crd: str, operator_kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OperatorProcess]:
    """It ends with the file: the next one's tests may have operators of their own."""
    folder = tmp_path_factory.mktemp("scenarios")
    token = folder / "alerts-token"
    token.write_text(ALERTS_TOKEN)
    settings = {"BACKSTAY_ALERTS_TOKEN_FILE": str(token)}
    process = OperatorProcess(control_plane, operator_kubeconfig, folder, settings)
    process.start()
    try:
        process.wait_until_healthy()
        yield process
    finally:
        process.kill()


@pytest.fixture
def story(
    access: Access,
    kubelet: FakeKubelet,
    shared_operator: OperatorProcess,
    namespace: str,
    record_property: Callable[[str, object], None],
) -> Iterator[Story]:
    """One resource's life under the shared operator."""
    kubelet.behaviours.clear()
    kubelet.room.clear()
    with access.client() as client:
        one = Story(client, namespace, kubelet, shared_operator)
        yield one
        record_property("seen", seen.words(one))
        one.delete()
