"""A model from push over a benchmark to a rollout that is judged by the numbers that were measured."""

import json

import pytest

from tests.e2e.bench import WHERE, Bench
from tests.e2e.story import publish
from tests.e2e.story.publish import Pushed

pytestmark = pytest.mark.node
QUICK = ("--sizes=1,2", "--step-seconds=2", "--think=0-0", "--requests=150", "--max-seconds=120")


def measured(bench: Bench, pushed: Pushed) -> tuple[Pushed, dict[str, float]]:
    """The same model under a manifest with measured baselines, and their limits."""
    address = bench.kube.get("service", bench.name, WHERE)["spec"]["clusterIP"]
    uri = f"{pushed.uri}-measured"
    options = (f"--url=http://{address}", f"--to={uri}", "--output=json", *QUICK)
    said = json.loads(publish.backstay(bench.place, "bench", pushed.uri, *options))
    limits = {name: one["value"] * one["tolerance"] for name, one in said["baselines"].items()}
    return Pushed(pushed.version, uri, said["digest"], pushed.size), limits


def test_a_model_with_measured_baselines_is_judged_by_them(bench: Bench) -> None:
    found, limits = measured(bench, bench.serve())
    with bench.speaking(per_second=25):
        status = bench.until_ended(found, bench.ask(found), within_s=150)
    # Whether this machine holds under two pods what it measured under one is not the question.
    assert status["attempt"]["digest"] == found.digest
    assert status["reason"] in ("Verified", "Breach", "InsufficientData")
    (verdict,) = [one for one in status["verdicts"] if one["metric"] == "p99LatencyMs"]
    assert verdict["limit"] == pytest.approx(limits["p99LatencyMs"])
    assert verdict["n"] > 0
    assert {one["metric"] for one in status["verdicts"]} >= {"p99LatencyMs", "ttftP99Ms", "errorRate"}
