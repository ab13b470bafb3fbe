"""make cases: every handed trouble beside the tests that keep it away; exit code 1 where one has no test."""

import argparse
import json
import sys

from tests.cases import collecting, table


def main() -> int:
    arguments = argparse.ArgumentParser(prog="python -m tests.cases", description=__doc__)
    arguments.add_argument("-o", "--output", choices=("text", "json"), default="text", help="how it is printed")
    chosen = arguments.parse_args()
    lists = table.read()
    marked = collecting.marked()
    rows = {name: table.rows(cases, marked) for name, cases in lists.items()}
    strange = table.unknown(lists, marked)
    missing = [row.case.id for found in rows.values() for row in found if row.missing]
    if chosen.output == "json":
        print(json.dumps({name: [row.model_dump() for row in found] for name, found in rows.items()}, indent=1))
    else:
        _print(rows)
    for case in strange:
        tests = ", ".join(dict.fromkeys(marked[case]))
        print(f"case {case}: stands in no list of tests/cases; named by {tests}", file=sys.stderr)
    if missing:
        print(f"without a test: {', '.join(missing)}", file=sys.stderr)
    return 1 if missing or strange else 0


def _print(rows: dict[str, tuple[table.Row, ...]]) -> None:
    for name, found in rows.items():
        covered = sum(bool(row.tests) for row in found)
        applying = sum(row.case.applies for row in found)
        print(f"{name}: {covered} of {applying} cases that apply have a test\n")
        print("\n".join(line for row in found for line in table.lines(row)), end="\n\n")


if __name__ == "__main__":
    sys.exit(main())
