"""The judge over a recorded time, look by look, as the operator would have looked. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from backstay_contract.evidence import AttemptVerdict, MetricEvidence, VerdictKind
from backstay_contract.metric import MetricName
from backstay_judge import Coverage, Settings, add, begin, judge, limits_on_requests, read_pods, read_rounds

from backstay_cli.replay.scrapes import Scrapes

MAX_AGE_SECONDS = 10.0
"""As in the operator: a sample older than this shows the past."""


@dataclass(frozen=True, kw_only=True)
class Rules:
    """By what is judged, and how it is looked."""

    limits: Mapping[MetricName, float | None]
    digest: str
    settings: Settings = field(default_factory=Settings)
    interval_seconds: float = 2.0
    min_seconds: float = 60.0
    """Observed seconds before a Pass decides."""


@dataclass(frozen=True)
class Look:
    """One look, and the observed seconds until it."""

    at: datetime
    observed_seconds: float
    verdict: AttemptVerdict


@dataclass(frozen=True)
class Decision:
    """What would have been decided: at the first look that decides, else at the end of the time."""

    kind: VerdictKind
    at: datetime
    seconds: float
    """From the begin of the time."""
    verdict: AttemptVerdict


def looks(scrapes: Scrapes, rules: Rules, start: float, end: float) -> Iterator[Look]:
    """Every look from the begin, which only takes the base, to the end. What was counted before the begin is no
    evidence."""
    evidence: tuple[MetricEvidence, ...] | None = None
    observed, seen, moment = 0.0, True, start
    while moment <= end + 1e-6:
        now = datetime.fromtimestamp(moment, UTC)
        coverage = _coverage(scrapes, rules, moment, now)
        if evidence is None:
            evidence = begin(limits_on_requests(rules.limits), coverage.readings, now)
        else:
            evidence = add(evidence, coverage.readings, now, rules.interval_seconds)
        verdict = judge(rules.limits, evidence, coverage, now, rules.settings)
        dark = verdict.verdict is VerdictKind.NO_DATA
        if moment > start and not dark and seen:
            observed += rules.interval_seconds
        seen = not dark
        yield Look(now, observed, verdict)
        moment += rules.interval_seconds


def decision(found: list[Look], rules: Rules) -> Decision:
    """The first Breach, or the first Pass after the shortest soak, or what the last look says."""
    start = found[0].at
    for look in found:
        passes = look.verdict.verdict is VerdictKind.PASS and look.observed_seconds >= rules.min_seconds
        if passes or look.verdict.verdict is VerdictKind.BREACH:
            return Decision(look.verdict.verdict, look.at, (look.at - start).total_seconds(), look.verdict)
    last = found[-1]
    kind = last.verdict.verdict
    # A Pass that came too early to end the soak is none yet.
    told = VerdictKind.INCONCLUSIVE if kind in (VerdictKind.PASS, VerdictKind.SKIPPED) else kind
    return Decision(told, last.at, (last.at - start).total_seconds(), last.verdict)


def _coverage(scrapes: Scrapes, rules: Rules, moment: float, now: datetime) -> Coverage:
    there = scrapes.at(moment)
    samples = [sample for scrape in there for sample in scrape.samples]
    readings = read_pods(
        samples,
        source=scrapes.source,
        digest=rules.digest,
        limits=limits_on_requests(rules.limits),
        now=now,
        max_age_seconds=MAX_AGE_SECONDS,
    )
    return Coverage(
        ready=frozenset(scrape.pod for scrape in there),
        readings=readings,
        rounds=read_rounds(samples, digest=rules.digest, now=now, max_age_seconds=MAX_AGE_SECONDS),
        source=scrapes.source,
    )
