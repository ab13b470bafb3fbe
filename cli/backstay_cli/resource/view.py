"""What `status` shows of a ModelDeployment. Pure: a resource's JSON and the time in, lines and cells out."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from backstay_contract import digest as digests
from backstay_contract.evidence import MetricVerdict
from backstay_contract.resource import ModelDeploymentSpec, parse_spec
from backstay_contract.status import Attempt, Failure, Fetching, ModelDeploymentStatus, Rejection, Side, parse_status

COLUMNS = ("NAME", "PHASE", "ACTIVE", "CANDIDATE", "READY", "REASON", "AGE")
WIDE = (*COLUMNS, "DIGEST", "ATTEMPT", "MESSAGE")
NONE = "-"


def row(resource: Mapping[str, Any], now: datetime, *, wide: bool = False, namespaced: bool = False) -> list[str]:
    """The cells of one resource under COLUMNS or WIDE, after its namespace where `namespaced`."""
    metadata, status = resource["metadata"], parse_status(resource.get("status") or {})
    cells = [metadata["namespace"]] if namespaced else []
    cells += [
        metadata["name"],
        status.phase,
        status.active.version if status.active else NONE,
        status.candidate.version if status.candidate else NONE,
        status.ready,
        status.reason or NONE,
        age(now - datetime.fromisoformat(metadata["creationTimestamp"])),
    ]
    if wide:
        cells.append(digests.short(status.active.digest) if status.active else NONE)
        cells += [status.attempt.id if status.attempt else NONE, status.message or NONE]
    return cells


def age(span: timedelta) -> str:
    """A span in its two largest units, as kubectl writes it: `3d4h`, `12m`, `45s`."""
    seconds = max(0, int(span.total_seconds()))
    days, hours, minutes = seconds // 86400, seconds // 3600 % 24, seconds // 60 % 60
    if days:
        return f"{days}d{hours}h" if days < 8 and hours else f"{days}d"
    if hours:
        return f"{hours}h{minutes}m" if minutes else f"{hours}h"
    if minutes:
        return f"{minutes}m{seconds % 60}s" if minutes < 10 and seconds % 60 else f"{minutes}m"
    return f"{seconds}s"


def detail(resource: Mapping[str, Any], now: datetime) -> list[str]:
    """All there is to know of one resource, as lines."""
    metadata = resource["metadata"]
    spec, status = parse_spec(resource["spec"]), parse_status(resource.get("status") or {})
    lines = [
        f"{metadata['namespace']}/{metadata['name']}  {status.phase}  {status.reason}".rstrip(),
        *([f"  {status.message}"] if status.message else []),
        *_stale(status, metadata["generation"]),
        f"asked for  {spec.model.name} {spec.model.version}  {digests.short(spec.model.sha256)}  {spec.model.uri}",
        *_side("active", status.active),
        *_side("candidate", status.candidate),
        *_side("previous", status.previous),
        *_held_in_place(spec, status, now),
        *_attempt(status.attempt, spec, now),
        *_evidence(status.verdicts),
        *_failure(status.last_failure, now),
        *_rejected(status.rejected, now),
    ]
    return lines


def _stale(status: ModelDeploymentStatus, generation: int) -> list[str]:
    if status.observed_generation >= generation:
        return []
    return [f"  the operator has not seen generation {generation} yet (this is of {status.observed_generation})"]


def _side(what: str, side: Side | None) -> list[str]:
    if side is None:
        return [f"{what:<9}  none"] if what == "active" else []
    return [
        f"{what:<9}  {side.colour}  {side.version}  {digests.short(side.digest)}  "
        f"ready {side.ready}/{side.replicas}  revision {side.revision}",
        *_fetching(side.progress),
    ]


def _fetching(progress: Fetching | None) -> list[str]:
    if progress is None:
        return []
    part = 100 * progress.bytes // max(1, progress.bytes_total)
    left = "" if progress.seconds_left is None else f", {age(timedelta(seconds=progress.seconds_left))} left"
    rate = progress.bytes_per_second / 1e6
    return [f"           fetching: {part} % of {progress.bytes_total / 1e9:.1f} GB at {rate:.0f} MB/s{left}"]


def _held_in_place(spec: ModelDeploymentSpec, status: ModelDeploymentStatus, now: datetime) -> list[str]:
    """Levers that people pulled, and what the operator does about a trouble."""
    rollout, returning, degraded = spec.rollout, status.returning, status.degraded
    lines = ["paused     nothing goes forward until backstay resume"] if rollout.paused else []
    if rollout.rollback_to:
        lines.append(f"pinned     revision {rollout.rollback_to}, until backstay rollback --clear")
    if returning is not None:
        lines.append(f"returning  to revision {returning.to} since {age(now - returning.since)}: {returning.reason}")
    if degraded is not None:
        lines.append(f"degraded   answers are cut since {age(now - degraded.since)}: {degraded.reason}")
    return lines


def _attempt(attempt: Attempt | None, spec: ModelDeploymentSpec, now: datetime) -> list[str]:
    if attempt is None:
        return []
    begun = f"began {age(now - attempt.started_at)} ago"
    lines = [f"attempt    {attempt.id}  {attempt.version} as {attempt.colour}, {begun}"]
    if attempt.switched_at is not None:
        soak = spec.rollout.soak
        lines.append(
            f"           flipped {age(now - attempt.switched_at)} ago, observed {attempt.observed_seconds:g} s "
            f"of {soak.min_seconds} to {soak.max_seconds} s"
        )
    if attempt.ended_at is not None:
        lines.append(f"           ended {age(now - attempt.ended_at)} ago: {attempt.outcome or 'unknown'}")
    return lines


def _evidence(verdicts: Iterable[MetricVerdict]) -> list[str]:
    lines = [line for one in verdicts for line in evidence(one)]
    return ["evidence", *lines] if lines else []


def evidence(verdict: MetricVerdict) -> list[str]:
    """A metric's verdict with the numbers it rests on."""
    parts = [f"  {verdict.metric:<16} {verdict.verdict:<13}"]
    if verdict.limit is not None:
        parts.append(f"limit {verdict.limit:g} {verdict.unit}".rstrip())
    if verdict.n:
        parts.append(f"n={verdict.n} k={verdict.k}")
    if verdict.estimate is not None:
        interval = ""
        if verdict.wilson_low is not None and verdict.wilson_high is not None:
            interval = f" (95 %: {verdict.wilson_low:.4f} to {verdict.wilson_high:.4f})"
        parts.append(f"estimate {verdict.estimate:.4f}{interval}")
    if verdict.allowed_fraction is not None:
        parts.append(f"allowed {verdict.allowed_fraction:g}")
    if verdict.e_value is not None and verdict.breach_at is not None:
        parts.append(f"log10 e {verdict.e_value:.2f} of {verdict.breach_at:.2f} to Breach")
    if verdict.pass_e_value is not None and verdict.pass_at is not None:
        parts.append(f"{verdict.pass_e_value:.2f} of {verdict.pass_at:.2f} to Pass")
    return ["  ".join(parts), f"    {verdict.reason}: {verdict.message}"]


def _failure(failure: Failure | None, now: datetime) -> list[str]:
    if failure is None:
        return []
    where = "/".join(part for part in (failure.pod, failure.container) if part)
    code = f", exit code {failure.exit_code}" if failure.exit_code is not None else ""
    lines = [f"failure    {failure.reason} {age(now - failure.at)} ago{code}{f' in {where}' if where else ''}"]
    lines.append(f"           {failure.message}")
    if failure.log_tail:
        lines += [f"           | {line}" for line in failure.log_tail.splitlines()]
    return lines


def _rejected(rejected: Iterable[Rejection], now: datetime) -> list[str]:
    lines = [
        f"  {one.version}  {digests.short(one.digest)}  {one.reason}{_numbers(one)}  {age(now - one.at)} ago"
        for one in rejected
    ]
    return ["rejected (not tried again until you run backstay retry)", *lines] if lines else []


def _numbers(one: Rejection) -> str:
    if one.metric is None:
        return ""
    observed = NONE if one.observed is None else f"{one.observed:g}"
    limit = NONE if one.limit is None else f"{one.limit:g}"
    return f"  {one.metric} observed {observed}, limit {limit}"
