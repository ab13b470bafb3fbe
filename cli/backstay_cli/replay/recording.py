"""Recordings: a JSON object a line, each a scrape of one pod: {"at": 1767225600.0, "pod": "a", "metrics": "…"}."""

import json
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from backstay_cli.errors import CliError, Exit, refused
from backstay_cli.replay.scrapes import Scrape, Scrapes, parse


def read(path: Path) -> Scrapes:
    """The scrapes of a recording. Raises CliError, naming the line."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise CliError(f"--from {path}: {error.strerror}", Exit.NOT_FOUND) from None
    except UnicodeDecodeError:
        raise refused(f"--from {path}: is no text; backstay record writes recordings") from None
    found = Scrapes.of(_scrapes(lines, str(path)))
    if not found.by_pod:
        raise refused(f"--from {path}: has no scrapes; backstay record writes recordings")
    return found


def _scrapes(lines: Iterable[str], source: str) -> Iterator[Scrape]:
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                yield _scrape(json.loads(line))
            except (ValueError, TypeError, KeyError) as error:
                raise refused(f"--from {source}, line {number}: is no scrape of a pod: {error}") from None


def _scrape(said: Any) -> Scrape:
    if not isinstance(said, dict):
        raise TypeError("it is no JSON object")
    at, pod = said.get("at"), said.get("pod")
    if isinstance(at, bool) or not isinstance(at, int | float) or not math.isfinite(at):
        raise ValueError(f"at: {at!r} is no time in Unix seconds")
    if not isinstance(pod, str) or not pod:
        raise ValueError(f"pod: {pod!r} is no name")
    metrics, problem = said.get("metrics"), said.get("problem")
    if isinstance(metrics, str):
        return Scrape(float(at), pod, parse(metrics, pod, float(at)))
    if isinstance(problem, str):
        return Scrape(float(at), pod, problem=problem)
    raise ValueError("it has neither metrics (the text of /metrics) nor problem (why there was none)")


def line(at: float, pod: str, *, metrics: str | None = None, problem: str = "") -> str:
    """A scrape as a line of a recording."""
    said = {"metrics": metrics} if metrics is not None else {"problem": problem}
    return json.dumps({"at": round(at, 3), "pod": pod, **said}, ensure_ascii=False) + "\n"
