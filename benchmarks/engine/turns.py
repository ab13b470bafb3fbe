"""Turns that a benchmark makes while there is time."""

import sys
import time
from collections.abc import Iterator


def timed(turns: int, end: float) -> Iterator[int]:
    """Numbers of turns, for as long as one like the longest so far would be over by `end` (monotonic); always one."""
    longest = 0.0
    for turn in range(turns):
        began = time.monotonic()
        if turn and began + longest > end:
            sys.stderr.write(f"{turn} of {turns} turns were made: there is no time for more (--minutes)\n")
            return
        yield turn
        longest = max(longest, time.monotonic() - began)
