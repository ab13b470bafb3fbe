"""Follows one request and counts it, at the latest when it ends and as slow at the moment it becomes so."""

import asyncio
import time
from dataclasses import replace

from backstay_contract.metric import MetricName
from backstay_contract.names import Outcome

from backstay_runtime.telemetry import evidence
from backstay_runtime.telemetry.metrics import Metrics

_LONGEST_TIMER = 86_400.0  # seconds; a crossing beyond a day needs no timer


class Tracker:
    """Evidence and durations of one generating request. Times are `time.monotonic`."""

    def __init__(self, metrics: Metrics, arrival: float, most_tokens: int, prompt_tokens: int) -> None:
        self._metrics = metrics
        self.progress = evidence.Progress(arrival=arrival, most_tokens=most_tokens)
        self._started: float | None = None
        self._last_token: dict[int, float] = {}
        self._last: float | None = None
        self._timers: dict[MetricName, asyncio.TimerHandle] = {}
        self._counted: set[MetricName] = set()
        metrics.tokens_in.inc(prompt_tokens)
        self._watch()

    def started(self, at: float) -> None:
        """The first of its sequences got its first step."""
        if self._started is None:
            self._started = at
            self._metrics.queue_seconds.observe(at - self.progress.arrival)

    def token(self, index: int, at: float) -> None:
        """Sequence `index` got a token."""
        metrics = self._metrics
        metrics.tokens_out.inc()
        before = self._last_token.get(index)
        if before is not None:
            metrics.inter_token_seconds.observe(at - before)
        self._last_token[index] = self._last = at
        first = self.progress.first_token is None
        self.progress = replace(
            self.progress,
            tokens=self.progress.tokens + 1,
            first_token=at if first else self.progress.first_token,
        )
        if first:
            metrics.ttft_seconds.observe(at - self.progress.arrival)
            if self._started is not None:
                metrics.prefill_seconds.observe(at - self._started)
            self._watch()

    def finish(self, outcome: str) -> float:
        """The end, once; returns the request's duration in seconds."""
        end = time.monotonic()
        for timer in self._timers.values():
            timer.cancel()
        duration = end - self.progress.arrival
        if outcome == Outcome.OK:
            self._metrics.request_seconds.observe(duration)
            if self.progress.first_token is not None and self._last is not None:
                self._metrics.decode_seconds.observe(self._last - self.progress.first_token)
            for metric, limit in self._metrics.limits.items():
                slow = evidence.beyond(metric, limit, self.progress, end)
                if slow is not None:
                    self._count(metric, slow=slow)
        return duration

    def _watch(self) -> None:
        """Sets a timer for each limit that can be crossed from now on, and takes back those that cannot."""
        now = time.monotonic()
        loop = asyncio.get_running_loop()
        for metric, limit in self._metrics.limits.items():
            if (old := self._timers.pop(metric, None)) is not None:
                old.cancel()
            at = evidence.crossing(metric, limit, self.progress)
            if at is not None and metric not in self._counted and at - now < _LONGEST_TIMER:
                self._timers[metric] = loop.call_later(max(0.0, at - now), self._crossed, metric)

    def _crossed(self, metric: MetricName) -> None:
        self._count(metric, slow=True)

    def _count(self, metric: MetricName, *, slow: bool) -> None:
        if metric not in self._counted:
            self._counted.add(metric)
            self._metrics.count_judged(metric, slow=slow)
