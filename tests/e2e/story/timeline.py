"""The story as text. Pure."""

from collections.abc import Iterable, Sequence

from tests.e2e.story import settings
from tests.e2e.story.claims import DESCRIPTION, Claim
from tests.e2e.story.record import Baseline, Json, Record, Rollout, Traffic


def text(record: Record, claims: Sequence[Claim], kubectl: str) -> str:
    """The whole report; `kubectl` is how a person types kubectl for this cluster."""
    parts = [
        heading("What happened"),
        *events(record),
        heading("The verdict's evidence"),
        *evidence(record),
        heading("Requests"),
        *requests(record.traffic),
        heading("What was promised"),
        *(f"  {'held  ' if one.holds else 'FAILED'}  {one.sentence}: {one.numbers}" for one in claims),
        heading("Seconds of each step"),
        *(f"  {seconds:7.1f}  {name}" for name, seconds in record.steps),
        f"  {sum(seconds for _, seconds in record.steps):7.1f}  together",
        heading("What to try next"),
        *next_steps(record, kubectl),
    ]
    return "\n".join(parts) + "\n"


def heading(title: str) -> str:
    return f"\n{title}\n{'-' * len(title)}"


def events(record: Record) -> list[str]:
    """One line for each thing that happened, by time since the first version was asked for."""
    began = record.rollouts[0].asked_at
    lines = [event for rollout in record.rollouts for event in _events(rollout)]
    return [f"  {at - began:7.2f} s  {said}" for at, said in sorted(lines)]


def _events(one: Rollout) -> Iterable[tuple[float, str]]:
    yield one.asked_at, f"{one.version} asked for ({one.size / 1e6:.0f} MB, {one.digest[:19]}…)"
    if one.ready_at is not None:
        pod = f": pull {one.pod.pull_s:.0f} s, load {one.pod.load_s:.0f} s" if one.pod else ""
        yield one.ready_at, f"{one.version} ready after {one.ready_at - one.asked_at:.1f} s{pod}"
    if one.flip_at is not None:
        since = f", {one.flip_at - one.ready_at:.2f} s after it was ready" if one.ready_at is not None else ""
        yield one.flip_at, f"{one.version} active: the Service selects it{since}"
    if one.breach_at is not None:
        yield one.breach_at, f"{one.version} breaches: {_breached(one)}"
    if one.back_at is not None:
        sample = f"{one.back_at - one.breach_at:.2f} s after the breaching look" if one.breach_at else ""
        on_it = f"{one.back_at - (one.flip_at or one.back_at):.1f} s after it became active"
        yield one.back_at, f"{one.version} left: the Service selects the previous colour, {sample}, {on_it}"
    if one.ended_at is not None:
        yield one.ended_at, f"{one.version} decided: {one.outcome}"


def _breached(one: Rollout) -> str:
    return "; ".join(sentence(verdict) for verdict in one.verdicts if verdict["verdict"] == "Breach")


def sentence(verdict: Json) -> str:
    """One metric's verdict with its numbers."""
    allowed = verdict.get("allowedFraction")
    share = f", where {allowed:.1%} may be" if allowed is not None else ""
    return (
        f"{verdict['metric']} {verdict['verdict']}: k={verdict.get('k', 0)} of n={verdict.get('n', 0)} "
        f"{_beyond(verdict)}{share}; "
        f"e-value 10^{number(verdict.get('eValue'))}, a breach needs 10^{number(verdict.get('breachAt'))}; "
        f"for Pass 10^{number(verdict.get('passEValue'))} of 10^{number(verdict.get('passAt'))}"
    )


def _beyond(verdict: Json) -> str:
    if verdict["metric"] == "errorRate":
        return "failed"
    return f"beyond {number(verdict.get('limit'))} {verdict.get('unit', '')}"


def number(value: float | None) -> str:
    return "?" if value is None else f"{value:.4g}"


def evidence(record: Record) -> list[str]:
    """What the judge counted, version by version."""
    lines = [baseline(record.baseline, record.rollouts[0].version)]
    for one in record.rollouts:
        judged = [verdict for verdict in one.verdicts if verdict["verdict"] != "Skipped"]
        lines.append(f"  {one.version}: {one.outcome}" + ("" if judged else "; it has no baselines to be judged by"))
        lines += [f"    {sentence(verdict)}" for verdict in judged]
    return lines


def baseline(measured: Baseline, version: str) -> str:
    return (
        f"  {version} measured live by the clients: P99 {measured.p99_ms:.0f} ms, median {measured.median_ms:.0f} ms "
        f"over {measured.samples} requests, {measured.busy:.0%} of the time busy;\n  its P99 is the later versions' "
        f"baseline, and {settings.TOLERANCE:g} times that is their limit"
    )


def requests(traffic: Sequence[Traffic]) -> list[str]:
    """What each kind of connection went through."""
    lines = []
    for one in traffic:
        lines.append(
            f"  {DESCRIPTION[one.kind]}: {one.sent} sent, {len(one.lost)} lost, {one.own_errors} errors of the worse "
            f"version's own, longest time without an answer {one.longest_gap_s:.2f} s"
        )
        moved = ("; ".join(f"{flip} {_seconds(after)}" for flip, after in one.moved_s.items())) or "no flip"
        lines.append(f"    last request to the losing side after each flip: {moved}")
    return lines


def _seconds(after: float | None) -> str:
    return "never moved" if after is None else f"{after:.2f} s"


def next_steps(record: Record, kubectl: str) -> list[str]:
    """Commands to look around with, and how it ends."""
    where = f"-n {settings.DEMO}"
    return [
        "  See what stands and why:     " + f"{kubectl} get mdep {where} -o wide",
        "  Read the evidence:           " + f"{kubectl} get mdep {settings.RESOURCE} {where} -o yaml",
        "  Read what was told:          " + f"{kubectl} get events {where}",
        "  Try the rejected one again:  "
        + f"{kubectl} patch mdep {settings.RESOURCE} {where} --type merge "
        + """--patch '{"spec": {"rollout": {"retryToken": "again"}}}'""",
        "  Remove everything:           make demo-clean",
    ]
