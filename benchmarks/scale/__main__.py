"""make bench-scale: what a thousand resources cost the operator, on a real API server with a played node."""

import argparse
import sys
import time
from dataclasses import dataclass

import httpx2

from benchmarks.scale import resources, takeover
from benchmarks.scale.plane import Plane, running
from benchmarks.scale.process import cpu_seconds, memory_mib, pid_of, quantile, total, wait
from tests.integration.harness.api import done, patch
from tests.integration.harness.operator_process import OperatorProcess
from tests.integration.harness.story import model

BRING_UP_SECONDS = 1800.0
WRITES, PASSES = "backstay_operator_api_writes_total", "backstay_operator_pass_seconds"


@dataclass
class Report:
    """Prints each figure as soon as it is known."""

    failed: bool = False

    def say(self, what: str, figure: str) -> None:
        print(f"| {what} | {figure} |", flush=True)  # noqa: T201

    def must(self, what: str, figure: str, holds: bool) -> None:
        self.failed |= not holds
        self.say(what, figure if holds else f"{figure} (must not be)")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("--part", choices=("resources", "takeover"), action="append", help="only this part")
    parser.add_argument("--resources", type=int, default=1000, help="how many there are (default: 1000)")
    parser.add_argument("--rest-seconds", type=float, default=120, help="how long each rest is measured (default: 120)")
    given = parser.parse_args()
    parts, report = given.part or ["resources", "takeover"], Report()
    with running() as plane:
        if "resources" in parts:
            with plane.access.client() as client:
                many(report, plane, client, given.resources, given.rest_seconds)
        if "takeover" in parts:
            takeover.measure(report, plane)
    return 1 if report.failed else 0


def many(report: Report, plane: Plane, client: httpx2.Client, count: int, rest_seconds: float) -> None:
    """Everything that there is to say about that many resources."""
    for number in range(resources.NAMESPACES):
        plane.control.kubectl("create", "namespace", resources.namespace_of(number))
    operator = plane.operator()
    operator.start()
    operator.wait_until_healthy()
    try:
        bring_up(report, plane, client, count)
        empty = start_up(report, operator, count)
        at_rest(report, operator, rest_seconds, empty, "watched every 30 s")
        resources.edit(plane, range(count), resources.UNWATCHED)
        at_rest(report, operator, rest_seconds, empty, "not watched")
        rollout(report, client, operator)
    finally:
        operator.kill()


def bring_up(report: Report, plane: Plane, client: httpx2.Client, count: int) -> None:
    """From nothing to all of them serving: the API server, the controllers and the played node have their part."""
    began = time.monotonic()
    resources.create(plane, range(count))
    wait("all serve", lambda: resources.phases(client).get("Serving") == count, BRING_UP_SECONDS, every=2.0)
    report.say(f"{count} resources from apply to serving", f"{time.monotonic() - began:.0f} s")


def start_up(report: Report, operator: OperatorProcess, count: int) -> float:
    """A new process, until it has looked at every resource. Gives its memory before the first one, in MiB."""
    operator.kill()
    began = time.monotonic()
    operator.start()
    operator.wait_until_healthy()
    pid = pid_of(operator)
    empty = memory_mib(pid)
    wait("all seen", lambda: total(operator.metrics(), "backstay_phase") >= count, 300, every=0.5)
    report.say("start-up until all were seen", f"{time.monotonic() - began:.1f} s, {cpu_seconds(pid):.1f} s of CPU")
    return empty


def at_rest(report: Report, operator: OperatorProcess, seconds: float, empty: float, how: str) -> None:
    """Nothing changes, so nothing may be written."""
    time.sleep(60)  # what was stirred up comes to rest
    pid, before, cpu = pid_of(operator), operator.metrics(), cpu_seconds(pid_of(operator))
    time.sleep(seconds)
    after, used = operator.metrics(), cpu_seconds(pid) - cpu
    writes = total(after, WRITES) - total(before, WRITES)
    passes = total(after, f"{PASSES}_count") - total(before, f"{PASSES}_count")
    slow = {part: quantile(before, after, PASSES, part) for part in (0.5, 0.99)}
    report.say(
        f"at rest, {how}: memory", f"{memory_mib(pid):.0f} MiB (most {memory_mib(pid, 'VmHWM'):.0f}, empty {empty:.0f})"
    )
    report.say(f"at rest, {how}: CPU over {seconds:.0f} s", f"{used:.1f} s ({100 * used / seconds:.1f} % of a core)")
    report.must(f"at rest, {how}: API writes", f"{60 * writes / seconds:g} a minute", writes == 0)
    report.say(f"at rest, {how}: passes", f"{60 * passes / seconds:.0f} a minute")
    report.say(f"at rest, {how}: a pass, P50 / P99", f"≤ {1000 * slow[0.5]:g} / ≤ {1000 * slow[0.99]:g} ms")


def rollout(report: Report, client: httpx2.Client, operator: OperatorProcess) -> None:
    """One of them gets a new version while the others are there."""
    before, began = operator.metrics(), time.monotonic()
    patch({"spec": {"model": model("1.1.0")}}, client, resources.path_of(0))

    def serves() -> bool:
        status = done(client.get(resources.path_of(0)))["status"]
        return (status.get("active") or {}).get("version") == "1.1.0" and status["phase"] == "Serving"

    wait("the new version", serves, 120)
    report.say("a rollout beside them, from the edit to serving", f"{time.monotonic() - began:.1f} s")
    writes = total(operator.metrics(), WRITES) - total(before, WRITES)
    report.say("API writes of that rollout", f"{writes:g}")


if __name__ == "__main__":
    sys.exit(main())
