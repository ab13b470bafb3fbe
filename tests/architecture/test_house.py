"""What people read and type: commands that are told of exist, links lead somewhere, CI runs what the README says."""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
MAKEFILE = (ROOT / "Makefile").read_text()
TARGETS = set(re.findall(r"^([a-z][a-z0-9-]*):", MAKEFILE, re.MULTILINE))
NEEDED = {
    "help", "test", "check", "cluster-up", "cluster-down", "images", "generate", "goldens", "bench", "setup",
}  # fmt: skip


def test_the_commands_that_people_expect_are_there() -> None:
    assert NEEDED <= TARGETS


def test_make_alone_lists_them_with_what_they_do() -> None:
    done = subprocess.run(["make", "--no-print-directory"], cwd=ROOT, capture_output=True, text=True, check=True)

    assert all(re.search(rf"^  make {target} +\S", done.stdout, re.MULTILINE) for target in NEEDED)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_make_command_in_a_page_exists(page: Path) -> None:
    told = set(re.findall(r"(?:`|^ *\$? *)make ([a-z][a-z0-9-]*)", page.read_text(), re.MULTILINE))

    assert told - TARGETS == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_to_a_file_leads_to_one(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())

    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_page_begins_with_its_title(page: Path) -> None:
    lines = [line for line in page.read_text().splitlines() if line and not line.startswith("<!--")]

    assert lines[0].startswith("# ")


def test_decisions_are_numbered_without_a_gap() -> None:
    numbers = [int(page.name[:4]) for page in sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))]

    assert numbers == list(range(1, len(numbers) + 1))


def test_ci_runs_the_checks_and_the_tests_that_the_readme_names() -> None:
    script = (ROOT / ".ci" / "run").read_text()

    assert "`make test`" in (ROOT / "README.md").read_text()
    assert all(f"make {target}" in script for target in ("check", "test", "test-e2e"))
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


@pytest.mark.parametrize("script", [".ci/run", "tools/setup.sh"])
def test_a_shell_script_stops_at_the_first_failure(script: str) -> None:
    text = (ROOT / script).read_text()

    assert text.startswith("#!/usr/bin/env bash\n")
    assert "\nset -euo pipefail\n" in text
    subprocess.run(["bash", "-n", ROOT / script], check=True)
