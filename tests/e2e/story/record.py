"""The story as numbers: what the watches and the load saw, put together. Pure; times are Unix seconds."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from backstay_contract.names import Annotation

from tests.e2e.story import figures, history
from tests.e2e.story.answers import Answer, of_kind
from tests.e2e.story.history import PodTimes, Seen

Json = dict[str, Any]


@dataclass(frozen=True)
class Rollout:
    """One version's way, from `kubectl apply` to its end. A time is None where it was not seen."""

    version: str
    digest: str
    size: int
    """Bytes."""
    asked_at: float
    ready_at: float | None
    """All pods of the candidate ready."""
    flip_at: float | None
    """The Service selects it."""
    ended_at: float | None
    outcome: str | None
    verdicts: tuple[Json, ...]
    """The last ones of its attempt, as they stand in the status."""
    pod: PodTimes | None
    back_at: float | None = None
    """The Service selects the previous colour again."""

    @property
    def breach_at(self) -> float | None:
        """When the look was taken that the judge called a breach."""
        times = [history.moment(verdict["at"]) for verdict in self.verdicts if verdict["verdict"] == "Breach"]
        return max(times, default=None)


@dataclass(frozen=True)
class Traffic:
    """What one kind of connection went through in the whole story."""

    kind: str
    sent: int
    lost: tuple[Answer, ...]
    own_errors: int
    """Errors that the bad version answered itself."""
    missing_lines: int
    longest_gap_s: float
    moved_s: dict[str, float | None]
    """By the version that won a flip: seconds until no request went to the other side."""


@dataclass(frozen=True)
class Baseline:
    """What was measured of v1 while it served."""

    p99_ms: float
    median_ms: float
    samples: int
    busy: float
    """Fraction of the time in which a request was under way."""


@dataclass(frozen=True)
class Record:
    """The whole story."""

    rollouts: tuple[Rollout, ...]
    traffic: tuple[Traffic, ...]
    baseline: Baseline
    status: Json
    """The resource's status at the end."""
    selected: str
    """Colour that the Service selects at the end."""
    before_reapply: Json
    after_reapply: Json
    steps: tuple[tuple[str, float], ...] = field(default=())
    """Name and seconds of each step."""


def rollout(
    resources: Sequence[Seen],
    services: Sequence[Seen],
    pods: Sequence[Seen],
    *,
    version: str,
    digest: str,
    size: int,
    asked_at: float,
) -> Rollout:
    """What the watches saw of one version after it was asked for."""
    of_version = [seen for seen in resources if _attempt(seen).get("version") == version and seen.at >= asked_at]
    ready = history.first(of_version, asked_at, phase="Checking")
    ended = next((seen for seen in of_version if _attempt(seen).get("endedAt")), None)
    last = of_version[-1].object["status"] if of_version else {}
    colour = last.get("attempt", {}).get("colour")
    flips = [flip for flip in history.flips(services) if flip.at >= asked_at]
    to_it = next((flip for flip in flips if flip.colour == colour), None)
    back = next((flip for flip in flips if to_it is not None and flip.at > to_it.at and flip.colour != colour), None)
    judged = ended.object["status"] if ended is not None else last
    return Rollout(
        version=version,
        digest=digest,
        size=size,
        asked_at=asked_at,
        ready_at=ready.at if ready else None,
        flip_at=to_it.at if to_it else None,
        ended_at=ended.at if ended else None,
        outcome=_attempt(ended).get("outcome") if ended else None,
        verdicts=tuple(judged.get("verdicts", ())),
        pod=_pod_times(pods, digest),
        back_at=back.at if back and ended and back.at <= ended.at + 1 else None,
    )


def _attempt(seen: Seen) -> Json:
    attempt: Json | None = seen.object.get("status", {}).get("attempt")
    return attempt or {}


def _pod_times(pods: Sequence[Seen], digest: str) -> PodTimes | None:
    for seen in pods:
        times = history.pod_times(seen.object)
        if digest_of(seen.object) == digest.removeprefix("sha256:") and times is not None:
            return times
    return None


def digest_of(pod: Json) -> str:
    """64 hex digits of the model that a pod serves."""
    return str(pod["metadata"].get("annotations", {}).get(Annotation.DIGEST, "")).removeprefix("sha256:")


def moves(rollouts: Sequence[Rollout]) -> list[tuple[str, str, str, float]]:
    """The flips between versions, by time: (name, winner's digest, loser's digest, time)."""
    found = []
    for before, after in itertools.pairwise(rollouts):
        if after.flip_at is not None:
            found.append((f"{before.version}→{after.version}", after.digest, before.digest, after.flip_at))
        if after.back_at is not None:
            found.append((f"{after.version}→{before.version}", before.digest, after.digest, after.back_at))
    return sorted(found, key=lambda move: move[3])


def baseline(answers: Sequence[Answer], since: float, until: float) -> Baseline:
    """P99 of the good answers that ended within that time."""
    good = [answer for answer in answers if answer.good and answer.sent >= since and answer.ended <= until]
    latencies = figures.latencies_ms(good)
    return Baseline(
        figures.percentile(latencies, 0.99),
        figures.percentile(latencies, 0.5),
        len(good),
        figures.busy_fraction(good, since, until),
    )


def traffic(
    answers: Sequence[Answer], kind: str, *, until: float, excused: str, moves: Sequence[tuple[str, str, str, float]]
) -> Traffic:
    """One kind's traffic up to `until`. `excused` is the digest whose own errors are apart; `moves` are the flips:
    (name of the winner, its digest, digest of the loser, time)."""
    mine = [answer for answer in of_kind(answers, kind) if answer.sent < until]
    since = min((answer.sent for answer in mine), default=until)
    ends = [*(at for *_, at in moves[1:]), until]
    return Traffic(
        kind=kind,
        sent=len(mine),
        lost=tuple(figures.lost(mine, excused=excused)),
        own_errors=len(figures.own_errors(mine, excused)),
        missing_lines=_missing(mine),
        longest_gap_s=figures.longest_gap(mine, since, until),
        moved_s={
            name: figures.moved_after(mine, winner, loser, at, end)
            for (name, winner, loser, at), end in zip(moves, ends, strict=True)
        },
    )


def _missing(answers: Sequence[Answer]) -> int:
    numbers = {answer.number for answer in answers}
    return max(numbers, default=-1) + 1 - len(numbers)
