"""A benchmark's result for people and for scripts. Pure."""

from typing import Any

from backstay_contract.metric import KINDS

from backstay_cli.bench.measure import Result

WIDTH = 40


def lines(result: Result) -> list[str]:
    """The sweep as a plot, then the figures."""
    most = max(step.tokens_per_second for step in result.steps) or 1.0
    said = ["batch  tokens/s   P50 s   P99 s  errors"]
    for step in result.steps:
        bar = "█" * max(1, round(WIDTH * step.tokens_per_second / most))
        mark = "  ← knee" if step.size == result.knee else ""
        said.append(
            f"{step.size:>5}  {step.tokens_per_second:>8.1f}  {step.p50_seconds:>6.2f}  {step.p99_seconds:>6.2f}  "
            f"{step.errors:>6}  {bar}{mark}"
        )
    said.append(f"baselines: {result.users} thinking users, {result.concurrency:.1f} requests under way on average")
    for metric, one in sorted(result.figures.items()):
        unit = KINDS[metric].unit
        said.append(
            f"  {metric:<16} {one.value:>10.5g} {unit:<9} 95 %: {one.low:.5g} to {one.high:.5g}  n={one.samples}"
        )
    return said


def as_json(result: Result) -> dict[str, Any]:
    """The same for scripts."""
    return {
        "knee": result.knee,
        "users": result.users,
        "concurrency": round(result.concurrency, 3),
        "steps": [
            {
                "size": step.size,
                "requests": step.requests,
                "errors": step.errors,
                "tokensPerSecond": round(step.tokens_per_second, 2),
                "p50Seconds": round(step.p50_seconds, 4),
                "p99Seconds": round(step.p99_seconds, 4),
            }
            for step in result.steps
        ],
    }
