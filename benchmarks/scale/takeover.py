"""How long nobody acts: after the leader was killed, and after it was told to stop."""

import time
from collections.abc import Callable
from typing import Protocol

from benchmarks.scale.plane import Plane
from benchmarks.scale.process import total, wait
from tests.integration.harness.operator_process import OperatorProcess


class Report(Protocol):
    """Where figures go."""

    def say(self, what: str, figure: str) -> None: ...


def leads(operator: OperatorProcess) -> bool:
    """Whether it acts, as its own metric says."""
    return total(operator.metrics(), "backstay_operator_leader") == 1


def measure(report: Report, plane: Plane, rounds: int = 3) -> None:
    """Two operators; the leader ends, the other one takes over, the first one comes back."""
    for what, end in (("killed", OperatorProcess.kill), ("told to stop", OperatorProcess.stop)):
        took = sorted(_once(plane, end, f"takeover-{what.replace(' ', '-')}-{number}") for number in range(rounds))
        report.say(f"takeover after the leader was {what} ({rounds} times)", f"{took[0]:.1f}–{took[-1]:.1f} s")


def _once(plane: Plane, end: Callable[[OperatorProcess], object], lease: str) -> float:
    first, second = (plane.operator(number, BACKSTAY_LEASE_NAME=lease) for number in (1, 2))
    try:
        for operator in (first, second):
            operator.start()
            operator.wait_until_healthy()
            wait("the first leader", lambda: leads(first), 30)
        time.sleep(3)
        began = time.monotonic()
        end(first)
        wait("the takeover", lambda: leads(second), 60, every=0.05)
        return time.monotonic() - began
    finally:
        first.kill()
        second.kill()
