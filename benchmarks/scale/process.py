"""What one process costs, and what its metrics say."""

import os
import re
import time
from collections.abc import Callable
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from tests.integration.harness.operator_process import OperatorProcess

TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """Processor time that the process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def memory_mib(pid: int, what: str = "VmRSS") -> float:
    """Its memory now, or with VmHWM the most that it ever had."""
    found = re.search(rf"^{what}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return int(found[1]) / 1024 if found else 0.0


def total(text: str, sample: str, **labels: str) -> float:
    """The sum over a metric's series with these labels."""
    return sum(
        one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
        if one.name == sample and labels.items() <= one.labels.items()
    )


def quantile(before: str, after: str, histogram: str, part: float) -> float:
    """Upper edge of the bucket in which the quantile of what was observed between the two lies, in its unit."""
    edges: dict[float, float] = {}
    for text, sign in ((before, -1), (after, 1)):
        for family in text_string_to_metric_families(text):
            for one in family.samples:
                if one.name == f"{histogram}_bucket":
                    edge = float(one.labels["le"])
                    edges[edge] = edges.get(edge, 0) + sign * one.value
    count = max(edges.values(), default=0)
    return next((edge for edge, below in sorted(edges.items()) if count and below >= part * count), 0.0)


def wait(what: str, until: Callable[[], bool], seconds: float, every: float = 0.1) -> float:
    """Seconds until it is so. Raises TimeoutError."""
    began = time.monotonic()
    while not until():
        if time.monotonic() - began > seconds:
            raise TimeoutError(f"{what}: not within {seconds:g} s")
        time.sleep(every)
    return time.monotonic() - began


def pid_of(operator: OperatorProcess) -> int:
    """The process's own id: nsenter becomes the program."""
    if operator.process is None:
        raise RuntimeError("the operator does not run")
    return operator.process.pid
