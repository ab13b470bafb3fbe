"""make scenarios: plays each situation of a rollout and says what was seen. Exit code 1 where one went otherwise."""

import contextlib
import io
import sys
from pathlib import Path

import pytest

from tests.integration.scenarios.reporter import Reporter

PLACES = ("tests/integration/scenarios", "tests/integration/crash")


def main(arguments: list[str]) -> int:
    """Further arguments are pytest's: `-k metrics` plays some of them only."""
    terminal, swallowed = sys.stdout, io.StringIO()
    reporter = Reporter(lambda line: print(line, file=terminal, flush=True))
    with contextlib.redirect_stdout(swallowed):
        code = pytest.main([*PLACES, "-q", "-p", "no:cacheprovider", *arguments], plugins=[reporter])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        print(swallowed.getvalue()[-4000:], file=sys.stderr)
        return int(code)
    missing = [] if arguments else list(reporter.missing())
    if missing:
        print(f"not played: {', '.join(missing)}", file=sys.stderr)
    return 1 if reporter.failed or missing else 0


if __name__ == "__main__":
    assert Path("pyproject.toml").exists(), "run it in the project's folder"
    sys.exit(main(sys.argv[1:]))
