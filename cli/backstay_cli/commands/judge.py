"""backstay judge."""

import math
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from backstay_contract import digest as digests
from backstay_contract.evidence import VerdictKind
from backstay_contract.metric import MetricName
from backstay_contract.rollout import Soak
from backstay_judge import Settings

from backstay_cli import console
from backstay_cli.commands import options
from backstay_cli.console import Output
from backstay_cli.errors import EXIT_HELP, CliError, Exit, refused, usage
from backstay_cli.replay import baselines as files
from backstay_cli.replay import plot, recording
from backstay_cli.replay.prometheus import Prometheus
from backstay_cli.replay.replay import Decision, Look, Rules, decision, looks
from backstay_cli.replay.scrapes import Scrapes
from backstay_cli.resource import view

EXITS = {
    VerdictKind.PASS: Exit.OK,
    VerdictKind.BREACH: Exit.BREACH,
    VerdictKind.INCONCLUSIVE: Exit.INCONCLUSIVE,
    VerdictKind.NO_DATA: Exit.NO_DATA,
}
MAX_LOOKS = 200_000


def judge(
    source: Annotated[str, typer.Option("--from", metavar="FILE|URL", help="A recording, or the URL of a Prometheus.")],
    baselines: Annotated[
        list[Path],
        typer.Option("--baselines", help="manifest.json, a ModelDeployment, or baselines. Can be repeated."),
    ],
    sha256: Annotated[
        str | None, typer.Option("--sha256", help="Digest that is judged; else --baselines says it.")
    ] = None,
    namespace: Annotated[str | None, typer.Option("-n", "--namespace", help="Prometheus: the pods' namespace.")] = None,
    start: Annotated[
        str | None, typer.Option("--start", help="When counting begins, as the flip does: a time, or -30m.")
    ] = None,
    end: Annotated[str | None, typer.Option("--end", help="A time, or -5m; left out: the end, or now.")] = None,
    skip: Annotated[list[MetricName] | None, typer.Option("--skip", help="A metric to leave out.")] = None,
    interval: Annotated[float | None, typer.Option("--interval", min=0.2, help="Seconds between looks.")] = None,
    min_seconds: Annotated[float | None, typer.Option("--min-seconds", min=0, help="Seconds before a Pass.")] = None,
    alpha: Annotated[float | None, typer.Option("--alpha", min=1e-9, max=0.5, help="Odds of a false Breach.")] = None,
    alpha_pass: Annotated[
        float | None, typer.Option("--alpha-pass", min=1e-9, max=0.5, help="Odds of a false Pass.")
    ] = None,
    output: options.Form = Output.TEXT,
) -> None:
    judged_by = files.read(baselines)
    limits = {metric: judged_by.limits.get(metric) for metric in MetricName if metric not in (skip or ())}
    if all(limit is None for limit in limits.values()):
        raise refused(f"--baselines {', '.join(map(str, baselines))}: gives no limit, so there is nothing to judge")
    digest = options.digest(sha256) or judged_by.digest
    scrapes, begin, until = _scrapes(source, digest, namespace, start, end)
    soak = judged_by.soak or Soak()
    rules = Rules(
        limits=limits,
        digest=digest or _only_digest(scrapes, source),
        settings=Settings(alpha=alpha or soak.alpha, alpha_pass=alpha_pass or soak.alpha_pass),
        interval_seconds=interval or soak.interval_seconds,
        min_seconds=soak.min_seconds if min_seconds is None else min_seconds,
    )
    if (until - begin) / rules.interval_seconds > MAX_LOOKS:
        raise usage(f"--interval {rules.interval_seconds:g}: more than {MAX_LOOKS} looks; take a longer one")
    found = list(looks(scrapes, rules, begin, until))
    decided = decision(found, rules)
    if output is Output.JSON:
        console.result_json(_json(found, decided, rules))
    else:
        _tell(found, decided, rules)
    raise typer.Exit(EXITS[decided.kind])


judge.__doc__ = f"""Judge a recorded time again, as the operator would have.

The same judge looks at the recorded counters every --interval and says what would have been decided, and when: the
first Breach, or the first Pass after --min-seconds. Counting begins at --start, as it does at a flip.

From a Prometheus, the pods whose series carry the digest:

    backstay judge --from http://localhost:9090 --baselines manifest.json -n prod --start -30m

From a recording, which `backstay record` writes (a JSON object a line, with at, pod and metrics):

    backstay judge --from soak.jsonl --baselines chat.yaml --start 2026-01-01T12:00:00Z

--baselines takes a manifest.json (its digest is then the one judged), a ModelDeployment (its soak settings then hold),
or a file with baselines alone: `p99LatencyMs: {{value: 420, tolerance: 2}}`.

{EXIT_HELP}
"""


def _scrapes(
    source: str, digest: str | None, namespace: str | None, start: str | None, end: str | None
) -> tuple[Scrapes, float, float]:
    now = datetime.now(UTC).timestamp()
    if re.match(r"https?://", source):
        if digest is None:
            raise usage("--sha256: a Prometheus is asked for a digest; give it, or --baselines manifest.json")
        if start is None:
            raise usage("--start: a Prometheus is asked for a time; give its begin, for example -30m")
        begin, until = moment("--start", start, now), moment("--end", end or "-0s", now)
        _check_order(begin, until)
        return Prometheus(source).scrapes(digest, namespace, begin, until), begin, until
    scrapes = recording.read(Path(source))
    begin = scrapes.begin if start is None else moment("--start", start, scrapes.end)
    until = scrapes.end if end is None else moment("--end", end, scrapes.end)
    _check_order(begin, until)
    return scrapes, begin, until


def _check_order(begin: float, until: float) -> None:
    if begin >= until:
        raise usage("--start: must be before --end, and in the recorded time")


def moment(option: str, text: str, now: float) -> float:
    """A time in Unix seconds: ISO 8601, or `-30m` before now (for a recording: before its end). Raises CliError."""
    ago = re.fullmatch(r"-(\d+(?:\.\d+)?)([smhd])", text)
    if ago:
        return now - float(ago[1]) * {"s": 1, "m": 60, "h": 3600, "d": 86400}[ago[2]]
    try:
        given = datetime.fromisoformat(text)
    except ValueError:
        raise usage(f"{option} {text}: write a time as 2026-01-01T12:00:00Z, or -30m") from None
    return (given if given.tzinfo else given.replace(tzinfo=UTC)).timestamp()


def _only_digest(scrapes: Scrapes, source: str) -> str:
    found = scrapes.digests()
    if len(found) != 1:
        named = ", ".join(sorted(digests.short(one) for one in found)) or "none"
        raise CliError(f"--from {source}: has series of {len(found)} digests ({named}); say --sha256", Exit.USAGE)
    return found.pop()


def _json(found: list[Look], decided: Decision, rules: Rules) -> dict[str, Any]:
    return {
        "decision": {
            "verdict": decided.kind.value,
            "at": decided.at.isoformat(),
            "seconds": round(decided.seconds, 3),
            "reason": decided.verdict.reason,
            "message": decided.verdict.message,
            "metrics": [one.to_json() for one in decided.verdict.metrics],
        },
        "rules": {
            "digest": rules.digest,
            "limits": {metric.value: limit for metric, limit in rules.limits.items()},
            "alpha": rules.settings.alpha,
            "alphaPass": rules.settings.alpha_pass,
            "intervalSeconds": rules.interval_seconds,
            "minSeconds": rules.min_seconds,
        },
        "looks": [
            {
                "at": look.at.isoformat(),
                "observedSeconds": look.observed_seconds,
                "verdict": look.verdict.verdict.value,
                "metrics": {
                    one.metric.value: {
                        "verdict": one.verdict.value,
                        "n": one.n,
                        "k": one.k,
                        "eValue": one.e_value,
                        "passEValue": one.pass_e_value,
                    }
                    for one in look.verdict.metrics
                },
            }
            for look in found
        ],
    }


def _tell(found: list[Look], decided: Decision, rules: Rules) -> None:
    console.result(f"{decided.kind.value} after {decided.seconds:g} s, at {decided.at:%Y-%m-%d %H:%M:%S} UTC")
    told = (one for one in decided.verdict.metrics if one.verdict is not VerdictKind.SKIPPED)
    console.result("\n".join(line for one in told for line in view.evidence(one)))
    shown = max(
        (one for one in decided.verdict.metrics if one.e_value is not None and one.breach_at is not None),
        key=lambda one: (one.e_value or 0.0) / (one.breach_at or math.inf),
        default=None,
    )
    if shown is not None and shown.breach_at is not None:
        points = plot.evidence([look for look in found if look.at <= decided.at], shown.metric)
        if len(points) > 1:
            console.result(f"\nlog10 of the e-value of {shown.metric} against its limit")
            console.result("\n".join(plot.draw(points, shown.breach_at)))
    skipped = [one.metric for one in decided.verdict.metrics if one.verdict is VerdictKind.SKIPPED]
    if skipped:
        console.note(f"not judged, for want of a baseline: {', '.join(skipped)}")
    console.note(f"{len(found)} looks every {rules.interval_seconds:g} s; digest {digests.short(rules.digest)}")
