"""What is shown: results on standard output, all else on standard error, colours and bars only on terminals."""

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn
from rich.table import Table
from rich.text import Text

Advance = Callable[[int], None]


class Output(StrEnum):
    """Form of the result on standard output."""

    TEXT = "text"
    JSON = "json"


def notes() -> Console:
    """The console on standard error, as it is now."""
    return Console(stderr=True, highlight=False)


def results() -> Console:
    """The console on standard output, as it is now; nothing is cut off where it is no terminal."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else 500)


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


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """A table as kubectl prints one."""
    built = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for column in columns:
        built.add_column(column, no_wrap=True)
    for row in rows:
        built.add_row(*(Text(cell) for cell in row))
    return built


@contextmanager
def progress(what: str) -> Iterator[Callable[[str], None]]:
    """How far something is, in one line: replaced on terminals, elsewhere a new one whenever it changes."""
    console, last = notes(), [""]
    if not console.is_terminal:

        def tell(text: str) -> None:
            if text != last[0]:
                note(text)
            last[0] = text

        yield tell
        return
    with console.status(Text(what)) as spinner:
        yield lambda text: spinner.update(Text(text))


@contextmanager
def bar(what: str, total: int) -> Iterator[Advance]:
    """A progress bar over bytes on terminals; elsewhere one line at the begin. Yields what is told each step."""
    console = notes()
    if not console.is_terminal:
        note(f"{what}: {total} bytes")
        yield lambda _: None
        return
    with _bytes_bar(console) as progress:
        task = progress.add_task(what, total=total)
        yield lambda count: progress.advance(task, count)


@contextmanager
def done_bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """The same where the total is known later. Yields what is told bytes done and bytes in all."""
    console = notes()
    if not console.is_terminal:
        note(what)
        yield lambda _done, _total: None
        return
    with _bytes_bar(console) as progress:
        task = progress.add_task(what, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


def _bytes_bar(console: Console) -> Progress:
    columns = (DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    return Progress(TextColumn("{task.description}"), BarColumn(), *columns, console=console, transient=True)
