"""Several operators that share one lease, and an API server that stands still for a while."""

import contextlib
import os
import signal
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

from backstay_cluster import running
from backstay_cluster.control_plane import ControlPlane
from prometheus_client.parser import text_string_to_metric_families

from tests.integration.harness.operator_process import OperatorProcess

LEASE_SECONDS = 6
"""Short, so that the tests are; the proportions are the usual ones."""


def several(plane: ControlPlane, kubeconfig: Path, folder: Path, count: int, **env: str) -> list[OperatorProcess]:
    """Operators with one lease, not started yet."""
    shared = {"BACKSTAY_LEASE_NAME": f"it-{uuid.uuid4().hex[:10]}", "BACKSTAY_LEASE_SECONDS": str(LEASE_SECONDS), **env}
    made = []
    for number in range(count):
        (folder / str(number)).mkdir()
        made.append(OperatorProcess(plane, kubeconfig, folder / str(number), shared, number))
    return made


def metric(operator: OperatorProcess, sample: str) -> float:
    """The sum over the metric's series."""
    families = text_string_to_metric_families(operator.metrics())
    return sum(one.value for family in families for one in family.samples if one.name == sample)


def leads(operator: OperatorProcess) -> bool:
    """Whether it acts, as it says itself; one that does not run does not."""
    if operator.process is None or operator.process.poll() is not None:
        return False
    return metric(operator, "backstay_operator_leader") == 1


def wait_for_leader(operators: list[OperatorProcess], seconds: float = 40) -> OperatorProcess:
    """The one that leads, as soon as one does; never are there two."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        leading = [operator for operator in operators if leads(operator)]
        assert len(leading) <= 1
        if leading:
            return leading[0]
        time.sleep(0.1)
    logs = "\n".join(operator.log.read_text()[-1500:] for operator in operators if operator.log.exists())
    raise AssertionError(f"nobody leads after {seconds:g} s\n{logs}")


@contextlib.contextmanager
def api_server_stands_still(plane: ControlPlane) -> Iterator[None]:
    """Its process is stopped: connections stay open, and nothing is answered."""
    pid = running.processes(plane.cluster)["kube-apiserver"].pid
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)
