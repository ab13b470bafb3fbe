"""backstay bench."""

import json
from datetime import UTC, datetime
from typing import Annotated

import typer

from backstay_cli import console
from backstay_cli.bench import measure, report
from backstay_cli.bench.measure import Plan, Subject
from backstay_cli.bench.users import Think
from backstay_cli.commands import measuring, options
from backstay_cli.commands.measuring import Model, Out, To, Url
from backstay_cli.console import Output
from backstay_cli.errors import EXIT_HELP, usage
from backstay_cli.model import qualification


def bench(
    model: Model,
    url: Url = None,
    to: To = None,
    out: Out = None,
    hardware_profile: Annotated[
        str, typer.Option("--hardware-profile", help="Of a folder that was not pushed yet; else the manifest's.")
    ] = "gpu=none",
    requests: Annotated[int, typer.Option("--requests", min=1, help="Answers that the baselines rest on.")] = 400,
    max_seconds: Annotated[float, typer.Option("--max-seconds", min=1, help="At most so long for them.")] = 1200,
    step_seconds: Annotated[float, typer.Option("--step-seconds", min=0.1, help="For each batch size.")] = 10,
    sizes: Annotated[str, typer.Option("--sizes", help="Batch sizes that are tried for the knee.")] = "1,2,4,8,16,32",
    think: Annotated[str, typer.Option("--think", help="Seconds that a user thinks: LOW-HIGH.")] = "2-5",
    tolerance: Annotated[
        list[str] | None, typer.Option("--tolerance", help="METRIC=FACTOR of a baseline. Can be repeated.")
    ] = None,
    endpoint: options.Endpoint = None,
    region: options.Region = None,
    access_key_file: options.AccessKeyFile = None,
    secret_key_file: options.SecretKeyFile = None,
    output: options.Form = Output.TEXT,
) -> None:
    tolerances = qualification.tolerances(tolerance or ())
    plan = Plan(_sizes(sizes), step_seconds, requests, max_seconds, _think(think))
    given = measuring.measured(model, endpoint, region, access_key_file, secret_key_file)
    measuring.check_to(given, to)
    profile = given.manifest.hardware_profile if given.manifest else qualification.hardware_profile(hardware_profile)
    with measuring.serving(given, url) as (target, who):
        result = measure.benchmark(
            lambda question: target.ask(who.model, question), plan._replace(scale=target.scale(who)), _bar
        )
    subject = Subject(given.content, profile, who.runtime_version)
    found = measure.baselines(result, subject, tolerances, datetime.now(UTC).replace(microsecond=0))
    body = {str(metric): one.to_json() for metric, one in found.items()}
    measuring.write(out, json.dumps(body, indent=1) + "\n")
    kept = given.manifest.baselines if given.manifest else {}
    published = measuring.publish(given, to, baselines={**kept, **found})
    if output is Output.JSON:
        console.result_json(report.as_json(result) | {"baselines": body, "digest": published})
        return
    for line in report.lines(result):
        console.result(line)
    if published:
        console.result(published)


bench.__doc__ = f"""Measure a model: the knee of its batch size, and the baselines that its rollouts are judged by.

Busy users fill ever larger batches until the next size gains less than 20 % throughput and costs more than 50 %
latency. Then users who think 2 to 5 s, with 20 % short, 50 % medium and 30 % long questions, keep 70 % of that batch
under way, and their answers are the baselines. Nothing is recorded when too many requests fail or too few are answered.

  backstay bench s3://models/chat/1.0.0 --url http://chat --to s3://models/chat/1.0.0-measured

  backstay bench ./chat --out measured.json && backstay push ./chat s3://models/chat/1.0.0 --measured measured.json …

{EXIT_HELP}
"""


def _sizes(text: str) -> tuple[int, ...]:
    try:
        sizes = tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError:
        sizes = ()
    if not sizes or not 1 <= sizes[0] <= sizes[-1] <= measure.MAX_USERS:
        raise usage(f"--sizes {text!r}: write batch sizes from 1 to {measure.MAX_USERS}, such as 1,2,4,8")
    return sizes


def _think(text: str) -> Think:
    low, _, high = text.partition("-")
    try:
        think = Think(float(low), float(high or low))
    except ValueError:
        raise usage(f"--think {text!r}: write LOW-HIGH in seconds, such as 2-5") from None
    if not 0 <= think.low <= think.high <= 3600:
        raise usage(f"--think {text!r}: write LOW-HIGH in seconds, such as 2-5")
    return think


def _bar(what: str, requests: int) -> measure.Tell:
    console.note(f"{what}{f': {requests} requests' if requests else ''}")
    return lambda _: None
