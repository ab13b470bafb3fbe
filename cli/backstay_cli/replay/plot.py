"""The evidence over time, drawn with characters. Pure."""

import math
from collections.abc import Sequence

from backstay_contract.metric import MetricName

from backstay_cli.replay.replay import Look

WIDTH, HEIGHT = 60, 8
EIGHTHS = " ▁▂▃▄▅▆▇█"


def evidence(found: Sequence[Look], metric: MetricName) -> list[tuple[float, float]]:
    """Seconds since the begin and log10 of the e-value for Breach, at the looks that have one."""
    start = found[0].at
    return [
        ((look.at - start).total_seconds(), verdict.e_value)
        for look in found
        for verdict in look.verdict.metrics
        if verdict.metric is metric and verdict.e_value is not None
    ]


def draw(points: Sequence[tuple[float, float]], breach_at: float) -> list[str]:
    """Lines of text: the evidence from left to right, a dotted line where Breach is."""
    seconds = max(at for at, _ in points) or 1.0
    columns: list[float | None] = [None] * WIDTH
    for at, value in points:
        place = min(WIDTH - 1, int(at / seconds * WIDTH))
        before = columns[place]
        columns[place] = value if before is None else max(before, value)
    filled = _carried(columns)
    bottom = min(0.0, *filled)
    top = max(breach_at, *filled)
    breach_row = max(1, min(HEIGHT, math.ceil((breach_at - bottom) / (top - bottom) * HEIGHT)))
    lines = []
    for row in range(HEIGHT, 0, -1):
        low, high = (bottom + (top - bottom) * (row - part) / HEIGHT for part in (1, 0))
        is_breach = row == breach_row
        cells = "".join(_cell(value, low, high, "┈" if is_breach else " ") for value in filled)
        label = f"{breach_at:8.2f}" if is_breach else f"{bottom:8.2f}" if row == 1 else " " * 8
        lines.append(f"{label} │{cells}{' Breach' if is_breach else ''}".rstrip())
    return [*lines, f"{'':8} └{'─' * WIDTH}", f"{'':9} 0 s{f'{seconds:g} s':>{WIDTH - 3}}"]


def _carried(columns: Sequence[float | None]) -> list[float]:
    """Where no look falls into a column, the evidence is still what it was."""
    filled, last = [], 0.0
    for value in columns:
        last = last if value is None else value
        filled.append(last)
    return filled


def _cell(value: float, low: float, high: float, empty: str) -> str:
    share = (value - low) / (high - low)
    eighths = max(0, min(8, round(share * 8)))
    return EIGHTHS[eighths] if eighths else empty
