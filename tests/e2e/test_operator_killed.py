"""The operator killed in the middle of a rollout: the next one derives the truth and comes to the same end."""

import threading
import time
from typing import Any

import pytest

from tests.e2e.bench import ROLLOUT, Bench
from tests.e2e.story import settings

pytestmark = pytest.mark.node
BREACHING = {"p99LatencyMs": {"value": 0.001, "tolerance": 1.0}}
"""Every request is slower than that."""
KEPT = {"p99LatencyMs": {"value": 60_000, "tolerance": 1.0}}
"""None is. The first version has limits of its own: else it breaches the second one's too, and is a witness that the
cause is shared by both."""
SHORT = ROLLOUT | {"soak": ROLLOUT["soak"] | {"maxSeconds": 1}}
"""Nobody asks the first version before it serves."""


def kill_operator(bench: Bench) -> None:
    """End its pod at once, without a chance to finish anything; its Deployment makes another."""
    where = f"--namespace={settings.SYSTEM}"
    selector = "--selector=app.kubernetes.io/component=operator"
    bench.kube.run("delete", "pods", where, selector, "--force", "--grace-period=0", timeout_s=60)


class Kill:
    """Kills the operator as soon as it wrote that phase after `since`; `at` is when."""

    def __init__(self, bench: Bench, phase: str, since: float) -> None:
        self._bench, self._phase, self._since = bench, phase, since
        self.at = 0.0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def join(self) -> None:
        self._thread.join(timeout=90)
        assert self.at, f"phase {self._phase} was never seen"

    def _run(self) -> None:
        wanted = self._phase
        seen = self._bench.watch.wait(lambda one: one.get("status", {}).get("phase") == wanted, self._since, 60)
        if seen is not None:
            kill_operator(self._bench)
            self.at = time.time()


@pytest.mark.parametrize("phase", ["Starting", "Checking", "Soaking"])
def test_a_good_version_comes_into_service_although_the_operator_is_killed(bench: Bench, phase: str) -> None:
    bench.serve()
    second = bench.push("2", seed=1)
    with bench.speaking():
        asked_at = bench.ask(second)
        kill = Kill(bench, phase, asked_at)
        status = bench.until_ended(second, asked_at)
        kill.join()
        settled = bench.until(lambda one: one.get("phase") == "Serving" and not one.get("previous"), 60, kill.at).object
    assert status["attempt"]["outcome"] == "NoBaselines"
    assert settled["status"]["active"]["digest"] == second.digest
    assert settled["status"]["attempts"] == 2, "no second try was opened"
    assert settled["status"]["rejected"] == []
    assert {code for _, code, _ in bench.spoken} == {200}


@pytest.mark.parametrize("phase", ["Starting", "Checking", "Soaking", "RollingBack"])
def test_a_breaching_version_is_left_and_rejected_although_the_operator_is_killed(bench: Bench, phase: str) -> None:
    first = bench.serve(baselines=KEPT, rollout=SHORT)
    second = bench.push("2", seed=1)
    with bench.speaking(per_second=10):
        asked_at = bench.ask(second, baselines=BREACHING)
        kill = Kill(bench, phase, asked_at)
        bench.until_ended(second, asked_at)
        kill.join()
        settled = bench.until(lambda one: one.get("phase") == "Serving" and not one.get("previous"), 60, kill.at).object
    status: dict[str, Any] = settled["status"]
    assert status["active"]["digest"] == first.digest
    assert status["active"]["colour"] == bench.selected()
    assert [entry["digest"] for entry in status["rejected"]] == [second.digest]
    assert status["rejected"][0]["metric"] == "p99LatencyMs"
    assert status["attempts"] == 2, "a rejected digest is not tried again by a new operator"
    assert {code for _, code, _ in bench.spoken} == {200}
