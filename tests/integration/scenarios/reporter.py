"""A pytest plugin that prints each scenario as a row: what was expected, what was seen, how long it took."""

import textwrap
from collections.abc import Callable, Iterable

import pytest

from tests.cases import table

WIDTH = 118


class Reporter:
    """Rows as they come; at the end the situations that no scenario played."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._cases = {case.id: case for case in table.read()["situations"]}
        self._of: dict[str, list[str]] = {}
        self._played: set[str] = set()
        self._seconds: dict[str, float] = {}
        self.failed = 0

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            self._of[item.nodeid] = [str(case) for marker in item.iter_markers("case") for case in marker.args]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call":
            self._seconds[report.nodeid] = report.duration
        bad = report.failed or report.outcome == "skipped"
        if report.when == "teardown" and not bad:
            self._row(report, "as expected")
        elif bad:
            self.failed += 1
            self._row(report, "NOT AS EXPECTED" if report.failed else "SKIPPED")
            self._tell(textwrap.indent(report.longreprtext[-4000:], "      "))

    def _row(self, report: pytest.TestReport, said: str) -> None:
        situations = [case for case in self._of.get(report.nodeid, ()) if case in self._cases]
        self._played.update(situations)
        seconds = self._seconds.get(report.nodeid, report.duration)
        name = report.nodeid.rpartition("::")[2].removeprefix("test_").replace("_", " ")
        self._tell(f"{'/'.join(situations) or '-':4} {name}: {said}, {seconds:.1f} s")
        for case in situations:
            self._paragraph("expected", self._cases[case].demand)
        self._paragraph("seen", str(dict(report.user_properties).get("seen", "")))

    def _paragraph(self, head: str, text: str) -> None:
        if text:
            indent = f"     {head + ':':10}"
            self._tell(textwrap.fill(text, WIDTH, initial_indent=indent, subsequent_indent=" " * len(indent)))

    def missing(self) -> Iterable[str]:
        """Situations without a scenario in this run."""
        return [case.id for case in self._cases.values() if case.applies and case.id not in self._played]
