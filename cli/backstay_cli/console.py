"""What is shown: results on standard output, all else on standard error, colours and bars only on terminals."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

Advance = Callable[[int], None]


class Output(StrEnum):
    """Form of the result on standard output."""

    TEXT = "text"
    JSON = "json"


def notes() -> Console:
    """The console on standard error, as it is now."""
    return Console(stderr=True, highlight=False)


def note(text: str) -> None:
    """A line for people."""
    notes().print(text, markup=False, soft_wrap=True)


def result(text: str) -> None:
    """A result as plain text."""
    sys.stdout.write(text if text.endswith("\n") else text + "\n")
    sys.stdout.flush()


def result_json(value: Any) -> None:
    """A result for scripts."""
    result(json.dumps(value, indent=2, ensure_ascii=False))


@contextmanager
def bar(what: str, total: int) -> Iterator[Advance]:
    """A progress bar over bytes on terminals; elsewhere one line at the begin."""
    console = notes()
    if not console.is_terminal:
        note(f"{what}: {total} bytes")
        yield lambda _: None
        return
    columns = (DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(TextColumn("{task.description}"), BarColumn(), *columns, console=console, transient=True) as progress:
        task = progress.add_task(what, total=total)
        yield lambda count: progress.advance(task, count)
