"""What must have held for the story to be a success. Pure."""

from typing import NamedTuple

from tests.e2e.story import settings
from tests.e2e.story.record import Json, Record, Rollout, Traffic


class Claim(NamedTuple):
    """A sentence, whether it held, and the numbers that say so."""

    sentence: str
    holds: bool
    numbers: str


def claims(record: Record) -> list[Claim]:
    """Everything that the demo promises, in the order of the story."""
    first, lighter, slower = record.rollouts
    return [
        Claim("the first version serves", first.flip_at is not None, _outcome(first)),
        Claim("the better version was verified", lighter.outcome == "Verified", _outcome(lighter)),
        Claim("the worse version was switched to, and breached", slower.outcome == "Breach", _outcome(slower)),
        _back(record, lighter, slower),
        _rejected(record, slower),
        *(_lost(one) for one in record.traffic),
        *(_moved(one, f"{slower.version}→{lighter.version}") for one in record.traffic),
        _created_nothing(record),
    ]


def _outcome(rollout: Rollout) -> str:
    return f"{rollout.version}: {rollout.outcome or 'no outcome'}"


def _back(record: Record, lighter: Rollout, slower: Rollout) -> Claim:
    active = record.status.get("active") or {}
    holds = (
        slower.back_at is not None
        and active.get("version") == lighter.version
        and active.get("colour") == record.selected
        and active.get("ready", 0) > 0
    )
    return Claim(
        "the Service selects the better version again",
        holds,
        f"selects {record.selected}, active is {active.get('version')}, {record.status.get('ready')} ready",
    )


def _rejected(record: Record, slower: Rollout) -> Claim:
    entry = next((one for one in record.status.get("rejected", ()) if _same(one["digest"], slower.digest)), None)
    if entry is None:
        return Claim("the worse digest stands in status.rejected", False, "it does not")
    holds = all(entry.get(name) is not None for name in ("metric", "observed", "limit"))
    return Claim(
        "the worse digest stands in status.rejected with metric, observed and limit",
        holds,
        f"{entry.get('metric')}, observed {entry.get('observed')}, limit {entry.get('limit')}",
    )


def _same(one: str, other: str) -> bool:
    return one.removeprefix("sha256:") == other.removeprefix("sha256:")


def _lost(traffic: Traffic) -> Claim:
    holds = traffic.sent > 0 and not traffic.lost and traffic.missing_lines == 0
    apart = f", {traffic.own_errors} errors of the worse version's own" if traffic.own_errors else ""
    example = f"; first: {traffic.lost[0].error} at {traffic.lost[0].sent:.3f}" if traffic.lost else ""
    return Claim(
        f"no request was lost: {DESCRIPTION[traffic.kind]}",
        holds,
        f"{len(traffic.lost)} of {traffic.sent} lost{apart}, {traffic.missing_lines} unaccounted for{example}",
    )


DESCRIPTION = {"new": "a new connection for each request", "kept": "connections that are kept"}


def _moved(traffic: Traffic, way_back: str) -> Claim:
    moved = traffic.moved_s.get(way_back)
    return Claim(
        f"after the way back all went to the winner within {settings.MOVE_SECONDS:g} s: {DESCRIPTION[traffic.kind]}",
        moved is not None and moved <= settings.MOVE_SECONDS,
        "nobody moved" if moved is None else f"{moved:.2f} s",
    )


def _created_nothing(record: Record) -> Claim:
    before, after = record.before_reapply, record.after_reapply
    changed = [name for name in before if before[name] != after.get(name)]
    return Claim(
        "the rejected resource, applied again with another annotation, created nothing",
        not changed,
        "nothing changed" if not changed else "; ".join(_change(name, before, after) for name in changed),
    )


def _change(name: str, before: Json, after: Json) -> str:
    return f"{name}: {before[name]} became {after.get(name)}"
