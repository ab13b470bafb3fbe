"""Which tests name which case: asked of pytest itself, which collects and runs nothing.

Each suite is collected in a process of its own: folders of the same name in two suites are one package to Python.
"""

import contextlib
import io
import json
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

SUITES = (("tests/unit", "tests/architecture"), ("tests/integration",), ("tests/e2e",), ("tests/device",))


class Marked:
    """A pytest plugin that writes down the markers."""

    def __init__(self) -> None:
        self.by_case: dict[str, list[str]] = {}

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            name = item.nodeid.partition("[")[0]
            for marker in item.iter_markers("case"):
                for case in marker.args:
                    self.by_case.setdefault(str(case), []).append(name)


def marked() -> dict[str, list[str]]:
    """Tests by case id. Raises RuntimeError with pytest's words where the tests cannot be collected."""
    found: dict[str, list[str]] = {}
    suites = [suite for suite in SUITES if all(Path(path).exists() for path in suite)]
    with ThreadPoolExecutor(max_workers=2) as pool:
        for one in pool.map(_of_suite, suites):
            for case, tests in one.items():
                found.setdefault(case, []).extend(tests)
    return found


def _of_suite(paths: Sequence[str]) -> dict[str, list[str]]:
    command = [sys.executable, "-m", "tests.cases.collecting", *paths]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"pytest could not collect {' '.join(paths)}:\n{done.stderr[-4000:]}")
    found: dict[str, list[str]] = json.loads(done.stdout)
    return found


def main(paths: Sequence[str]) -> int:
    """Print the markers of one suite as JSON."""
    plugin, said = Marked(), io.StringIO()
    with contextlib.redirect_stdout(said):
        code = pytest.main(["--collect-only", "-q", "-p", "no:cacheprovider", *paths], plugins=[plugin])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        print(said.getvalue(), file=sys.stderr)
        return 1
    print(json.dumps(plugin.by_case))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
