"""How often ways of judging a rollout send a good model back, and how soon they find a bad one.

    make bench-judge                             # tables, some minutes
    python -m benchmarks.judge --runs 50         # quicker and coarser
    python -m benchmarks.judge -o json           # the same numbers for scripts
    python -m benchmarks.judge --only recorded   # scenarios whose name has this word

A run is a soak of 20 windows. All policies see the same latencies or errors; the rivals see each, Backstay only counts.
Exit code 1 where a rival that finds a 6x shift as surely sends back fewer models that the limit allows.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from benchmarks.judge import soaks
from benchmarks.judge.measure import Cell, Loss, cases, losses, measure

HEAD = "Sent back, in brackets the median windows / requests until then; ✗: the limit forbids the model."


def table(cells: Sequence[Cell]) -> str:
    """The cells for reading: a table for each scenario, in Markdown."""
    lines: list[str] = []
    for scenario in dict.fromkeys(cell.scenario for cell in cells):
        rows = [cell for cell in cells if cell.scenario == scenario]
        models = list(dict.fromkeys((cell.model, cell.allowed) for cell in rows))
        lines += ["", f"**{scenario}**", ""]
        lines.append("| |" + "|".join(f" {model}{'' if allowed else ' ✗'} " for model, allowed in models) + "|")
        lines.append("| --- |" + " ---: |" * len(models))
        for policy in dict.fromkeys(cell.policy for cell in rows):
            shown = (_shown(cell) for cell in rows if cell.policy == policy)
            lines.append(f"| {policy} |" + "|".join(f" {text} " for text in shown) + "|")
    return "\n".join(lines[1:])


def _shown(cell: Cell) -> str:
    return f"{cell.sent_back:.1%}" + (f" ({cell.windows:g} / {cell.requests:g})" if cell.windows is not None else "")


def main(arguments: Sequence[str]) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.judge", description=(__doc__ or "").split("\n", maxsplit=1)[0]
    )
    parser.add_argument("--runs", type=int, default=100, help="soaks per cell (default: 100)")
    parser.add_argument("--only", default="", help="scenarios whose name has this word")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    given = parser.parse_args(arguments)
    wanted = [case for case in cases(soaks.read_traces()) if given.only in case.scenario]
    as_json = given.output == "json"
    if not as_json:
        print(f"{HEAD} {given.runs} soaks a cell.")  # noqa: T201
    cells: list[Cell] = []
    for scenario in dict.fromkeys(case.scenario for case in wanted):
        found = list(measure([case for case in wanted if case.scenario == scenario], given.runs, given.seed))
        cells += found
        if not as_json:
            print(f"\n{table(found)}", flush=True)  # noqa: T201
    lost = losses(cells, given.runs)
    if as_json:
        print(json.dumps(_document(cells, lost, given), indent=1))  # noqa: T201
    else:
        for one in lost:
            print(f"\nlost to {one.rival} ({one.scenario}): {one.what}")  # noqa: T201
    return 1 if lost else 0


def _document(cells: Sequence[Cell], lost: Sequence[Loss], given: argparse.Namespace) -> dict[str, Any]:
    return {
        "runs": given.runs,
        "windows": soaks.WINDOWS,
        "seed": given.seed,
        "cells": [asdict(cell) for cell in cells],
        "losses": [asdict(one) for one in lost],
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
