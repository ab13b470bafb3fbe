"""backstay record."""

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, TextIO

import typer
import urllib3

from backstay_cli import console
from backstay_cli.errors import EXIT_HELP, CliError, Exit, usage
from backstay_cli.replay import recording

TIMEOUT_SECONDS = 2.0
MAX_BYTES = 16 * 1024 * 1024


def record(
    pods: Annotated[list[str], typer.Argument(metavar="POD=URL…", help="A pod's name and the URL of its /metrics.")],
    into: Annotated[Path, typer.Option("--into", help="File to write to; it must not be there.")],
    seconds: Annotated[float, typer.Option("--seconds", min=0, help="How long; Ctrl-C ends it sooner.")] = 600.0,
    interval: Annotated[float, typer.Option("--interval", min=0.2, help="Seconds between scrapes.")] = 2.0,
) -> None:
    targets = dict(_target(one) for one in pods)
    try:
        file = into.open("x", encoding="utf-8")
    except OSError as error:
        raise CliError(f"--into {into}: {error.strerror}", Exit.REFUSED) from None
    pool = urllib3.PoolManager(timeout=urllib3.Timeout(total=TIMEOUT_SECONDS), retries=False)
    scrapes = failed = 0
    with file:
        try:
            for answered in _scrapes(pool, targets, file, seconds, interval):
                scrapes, failed = scrapes + 1, failed + (not answered)
        except KeyboardInterrupt:
            console.note("interrupted; what was recorded until now is whole")
    console.note(f"{into}: {scrapes} scrapes of {len(targets)} pods, {failed} failed")


record.__doc__ = f"""Record the counters of pods, to judge the time again later with `backstay judge --from`.

Each pod is scraped every --interval; a scrape that fails is recorded as that. Pods of a cluster are reached through
`kubectl port-forward`, one for each:

    kubectl port-forward pod/chat-green-7d9c-x2x9k 8000 &

    backstay record chat-green-7d9c-x2x9k=http://127.0.0.1:8000/metrics --into soak.jsonl --seconds 300

{EXIT_HELP}
"""


def _target(text: str) -> tuple[str, str]:
    pod, equals, url = text.partition("=")
    if not equals or not pod or not url.startswith(("http://", "https://")):
        raise usage(f"{text}: write POD=URL, for example chat-green-1=http://127.0.0.1:8000/metrics")
    return pod, url


def _scrapes(
    pool: urllib3.PoolManager, targets: Mapping[str, str], file: TextIO, seconds: float, interval: float
) -> Iterator[bool]:
    """Scrapes until the time is over; whether each one was answered."""
    began = time.monotonic()
    while True:
        for pod, url in targets.items():
            at = time.time()
            text, problem = _scrape(pool, url)
            file.write(recording.line(at, pod, metrics=text, problem=problem))
            yield text is not None
        file.flush()
        passed = time.monotonic() - began
        wait = interval - passed % interval
        if passed + wait > seconds:
            return
        time.sleep(wait)


def _scrape(pool: urllib3.PoolManager, url: str) -> tuple[str | None, str]:
    """The text, or None and why there is none."""
    try:
        answer = pool.request("GET", url, preload_content=False, redirect=False)
        body = answer.read(MAX_BYTES)
        if answer.status != 200:
            return None, f"/metrics answered {answer.status}"
        return body.decode(), ""
    except (urllib3.exceptions.HTTPError, UnicodeDecodeError) as error:
        return None, f"{type(error).__name__}: {error}"[:300]
