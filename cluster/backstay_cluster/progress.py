"""Progress for people: a live line on a terminal, plain lines elsewhere; step, seconds and what it waits for."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console
from rich.markup import escape
from rich.status import Status

HEARTBEAT_S = 15.0
"""On plain outputs a running step says so this often: CI systems end jobs that are silent for minutes."""


class Step:
    """One step that is under way."""

    def __init__(self, title: str, elapsed: Callable[[], float], show: Callable[[str], None]) -> None:
        self._title, self._elapsed, self._show = title, elapsed, show
        self.note = ""
        """Shown beside the step's name when it has ended."""

    def waits_for(self, what: str) -> None:
        """Say what the step waits for; call it as often as you like."""
        self._show(f"{self._title}  {self._elapsed():.0f} s  waits for {what}")


class Progress:
    """Tells of steps on standard error, so that standard output stays free for results."""

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = Console(file=stream or sys.stderr, highlight=False, soft_wrap=True)
        self._clock = clock
        self._began = clock()

    @contextmanager
    def step(self, title: str) -> Iterator[Step]:
        """Tell of a step: while it runs, and how long it took when it ends; a failure is told, too."""
        began = self._clock()
        live = self._console.status(escape(title)) if self._console.is_terminal else None
        if live is not None:
            live.start()
        step = Step(title, lambda: self._clock() - began, self._shower(live))
        try:
            yield step
        except BaseException:
            self._finish(live, f"[red]failed[/red]  {escape(title)}", began)
            raise
        note = f"  {escape(step.note)}" if step.note else ""
        self._finish(live, f"[green]done[/green]    {escape(title)}{note}", began)

    def say(self, text: str) -> None:
        """One line that is no step."""
        self._console.print(escape(text))

    @property
    def elapsed_s(self) -> float:
        """Seconds since this progress began."""
        return self._clock() - self._began

    def _shower(self, live: Status | None) -> Callable[[str], None]:
        said = self._clock()

        def show(text: str) -> None:
            nonlocal said
            if live is not None:
                live.update(escape(text))
            elif self._clock() - said >= HEARTBEAT_S:
                said = self._clock()
                self._console.print(f"        {escape(text)}")

        return show

    def _finish(self, live: Status | None, text: str, began: float) -> None:
        if live is not None:
            live.stop()
        self._console.print(f"{self.elapsed_s:6.1f} s  {text}  ({self._clock() - began:.1f} s)")
