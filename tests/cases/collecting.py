"""Which tests name which case: asked of pytest itself, which collects and runs nothing."""

import contextlib
import io
from collections.abc import Sequence

import pytest


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


def marked(paths: Sequence[str]) -> dict[str, list[str]]:
    """Tests by case id. Raises RuntimeError with pytest's words where the tests cannot be collected."""
    plugin, said = Marked(), io.StringIO()
    with contextlib.redirect_stdout(said):
        code = pytest.main(["--collect-only", "-q", *paths], plugins=[plugin])
    if code != pytest.ExitCode.OK:
        raise RuntimeError(f"pytest could not collect {' '.join(paths)}:\n{said.getvalue()[-4000:]}")
    return plugin.by_case
