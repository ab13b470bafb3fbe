"""Evidence and verdict under whatever a cluster does: pods come, restart and go, sources lag, lie and fail."""

import json
import math
from dataclasses import replace

from backstay_contract.evidence import AttemptVerdict, EvidenceSource, MetricEvidence, VerdictKind
from backstay_contract.names import RuntimeMetric
from backstay_judge import Coverage, Sample, Settings, add, begin, judge, read_pods
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from .build import DIGEST, FLIP, INTERVAL, LATENCY, P99, at, samples

PODS = ["a", "b", "c"]
LIES = [math.nan, math.inf, -1.0, 0.25]


class ASoak(RuleBasedStateMachine):
    """A soak of up to three pods; the true counts are known beside the evidence."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds = 0.0
        self.counters: dict[str, tuple[float, int, int]] = {}
        self.ready: set[str] = set()
        self.served = [0, 0]
        self.verdict: AttemptVerdict | None = None
        self.complete = False
        self.evidence: tuple[MetricEvidence, ...] = ()

    @initialize(checks=st.integers(0, 50))
    def flip(self, checks: int) -> None:
        for pod in PODS[:2]:
            self.counters[pod] = (FLIP.timestamp() - 60, checks, checks)
            self.ready.add(pod)
        self.evidence = begin([LATENCY], self._read(self._samples(), EvidenceSource.PODS), FLIP)

    @rule(pod=st.sampled_from(PODS), n=st.integers(0, 200), k=st.integers(0, 200))
    def serve(self, pod: str, n: int, k: int) -> None:
        if pod in self.ready:
            started, judged, beyond = self.counters[pod]
            slow = min(n, k)
            self.counters[pod] = (started, judged + n, beyond + slow)
            self.served = [self.served[0] + n, self.served[1] + slow]

    @rule(pod=st.sampled_from(PODS))
    def restart(self, pod: str) -> None:
        self.seconds += 2
        self.counters[pod] = (at(self.seconds).timestamp(), 0, 0)
        self.ready.add(pod)

    @rule(pod=st.sampled_from(PODS))
    def become_unready(self, pod: str) -> None:
        self.ready.discard(pod)

    @rule(source=st.sampled_from(list(EvidenceSource)))
    def look(self, source: EvidenceSource) -> None:
        self._look(self._samples(), source)
        self.complete = bool(self.ready)

    @rule(name=st.sampled_from([RuntimeMetric.JUDGED, RuntimeMetric.SLOW]), lie=st.sampled_from(LIES), data=st.data())
    def look_at_a_lie(self, name: str, lie: float, data: st.DataObject) -> None:
        if self.ready:
            pod = data.draw(st.sampled_from(sorted(self.ready)))
            self._look(
                [replace(s, value=lie) if (s.name, s.labels["pod"]) == (name, pod) else s for s in self._samples()],
                EvidenceSource.PROMETHEUS,
            )
            self.complete = False

    @rule(data=st.data())
    def look_past_a_pod(self, data: st.DataObject) -> None:
        if self.ready:
            pod = data.draw(st.sampled_from(sorted(self.ready)))
            self._look([s for s in self._samples() if s.labels["pod"] != pod], EvidenceSource.PROMETHEUS)
            self.complete = False

    @rule(problem=st.sampled_from(["401 Unauthorized", "timeout"]))
    def look_in_vain(self, problem: str) -> None:
        self._look([], EvidenceSource.PROMETHEUS, problem)
        self.complete = False

    def _samples(self) -> list[Sample]:
        return [
            sample
            for pod, (started, judged, beyond) in self.counters.items()
            for sample in samples(pod, judged=judged, beyond=beyond, started=started, seconds=self.seconds)
        ]

    def _read(self, found: list[Sample], source: EvidenceSource) -> tuple:  # type: ignore[type-arg]
        return read_pods(
            found, source=source, digest=DIGEST, limits=[LATENCY], now=at(self.seconds), max_age_seconds=10
        )

    def _look(self, found: list[Sample], source: EvidenceSource, problem: str | None = None) -> None:
        self.seconds += 0.5
        readings = self._read(found, source)
        # Through the status and back, as every pass of the operator does.
        kept = [MetricEvidence.model_validate(json.loads(json.dumps(one.to_json()))) for one in self.evidence]
        self.evidence = add(kept, readings, at(self.seconds), INTERVAL)
        coverage = Coverage(ready=frozenset(self.ready), readings=readings, source=source, unavailable=problem)
        self.verdict = judge({P99: LATENCY.value}, self.evidence, coverage, at(self.seconds), Settings())

    @invariant()
    def no_request_is_counted_that_was_not_served(self) -> None:
        for evidence in self.evidence:
            assert 0 <= evidence.k == evidence.k_at_most <= evidence.n <= self.served[0]
            assert evidence.k <= self.served[1]

    @invariant()
    def the_pods_add_up_to_the_whole(self) -> None:
        for evidence in self.evidence:
            assert evidence.n == sum(pod.n for pod in evidence.pods)
            assert evidence.k == sum(pod.k for pod in evidence.pods)
            assert evidence.windows.open_n <= evidence.n
            assert evidence.windows.beyond <= evidence.windows.closed

    @invariant()
    def an_incomplete_look_decides_nothing(self) -> None:
        if self.verdict is not None and not self.complete:
            assert self.verdict.verdict is VerdictKind.NO_DATA

    @invariant()
    def a_complete_look_is_not_called_no_data(self) -> None:
        if self.verdict is not None and self.complete:
            assert self.verdict.verdict is not VerdictKind.NO_DATA

    @invariant()
    def a_breach_shows_more_than_is_allowed(self) -> None:
        if self.verdict is not None and self.verdict.verdict is VerdictKind.BREACH:
            estimate = self.verdict.metrics[0].estimate
            assert estimate is not None
            assert estimate > LATENCY.allowed_fraction


TestASoak = ASoak.TestCase
TestASoak.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
