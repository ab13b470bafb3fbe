"""One resource's story with an operator of its own."""

from collections.abc import Iterator

import pytest

from tests.integration.harness.api import Access
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
