"""The parts, and who may know whom. The layers themselves are declared in pyproject.toml ([tool.importlinter])."""

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = {
    "contract": ["backstay_contract", "backstay_judge"],
    "operator": ["backstay_operator"],
    "runtime": ["backstay_runtime"],
    "cli": ["backstay_cli"],
    "cluster": ["backstay_cluster"],
}
SOURCES = sorted(
    path for folder, packages in PACKAGES.items() for name in packages for path in (ROOT / folder / name).rglob("*.py")
)
EVERYTHING = SOURCES + sorted(
    path for folder in ("tests", "tools", "benchmarks") for path in (ROOT / folder).rglob("*.py")
)


def imported(file: Path) -> Iterator[str]:
    """Top-level names of what a file imports, wherever in it."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module.partition(".")[0]


def outside(package: str) -> set[str]:
    """What a package imports beside itself and the standard library."""
    files = [file for file in SOURCES if package in file.parts]
    assert files
    return {name for file in files for name in imported(file)} - set(sys.stdlib_module_names) - {package}


def test_the_declared_layers_hold() -> None:
    program = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([program, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout


def test_every_package_is_under_the_declared_layers() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["root_packages"]

    assert sorted(declared) == sorted(name for names in PACKAGES.values() for name in names)


def test_the_contract_needs_pydantic_and_nothing_else() -> None:
    assert outside("backstay_contract") == {"pydantic"}


def test_the_judge_needs_the_contract_and_nothing_else() -> None:
    assert outside("backstay_judge") <= {"backstay_contract", "pydantic"}


def locked() -> dict[str, set[str]]:
    """Each locked distribution's direct dependencies, without optional ones."""
    packages = tomllib.loads((ROOT / "uv.lock").read_text())["package"]
    return {one["name"]: {need["name"] for need in one.get("dependencies", ())} for one in packages}


def closure(distribution: str) -> set[str]:
    """All that an installation of a distribution brings."""
    needs, found, open_ = locked(), set[str](), {distribution}
    while open_:
        name = open_.pop()
        found.add(name)
        open_ |= needs[name] - found
    return found


@pytest.mark.parametrize(
    ("distribution", "unwanted"),
    [
        ("backstay-contract", {"torch", "kopf", "kubernetes", "minio", "fastapi", "typer", "rich"}),
        ("backstay-operator", {"torch", "fastapi", "uvicorn", "minio", "typer"}),
        ("backstay-runtime", {"kopf", "kubernetes", "typer", "rich"}),
        ("backstay", {"torch", "kopf", "fastapi", "uvicorn"}),
        ("backstay-cluster", {"torch", "kopf", "kubernetes", "fastapi"}),
    ],
)
def test_an_installation_brings_nothing_of_another_parts(distribution: str, unwanted: set[str]) -> None:
    assert closure(distribution) & unwanted == set()


def test_the_operator_brings_kopf_and_the_runtime_torch() -> None:
    assert "kopf" in closure("backstay-operator")
    assert "torch" in closure("backstay-runtime")


@pytest.mark.parametrize("folder", sorted(PACKAGES))
def test_a_parts_folder_is_no_package_of_its_own(folder: str) -> None:
    assert not (ROOT / folder / "__init__.py").exists()


def test_no_module_shadows_the_standard_librarys_operator() -> None:
    assert [file for file in EVERYTHING if file.name == "operator.py"] == []


@pytest.mark.parametrize("package", sorted(name for names in PACKAGES.values() for name in names))
def test_every_package_tells_type_checkers_that_it_is_typed(package: str) -> None:
    folder = next(folder for folder, names in PACKAGES.items() if package in names)

    assert (ROOT / folder / package / "py.typed").exists()


def test_no_file_has_more_than_500_lines() -> None:
    assert {str(f): n for f in EVERYTHING if (n := len(f.read_text().splitlines())) > 500} == {}


def test_most_files_of_the_parts_are_short() -> None:
    lengths = sorted(len(file.read_text().splitlines()) for file in SOURCES)

    assert lengths[len(lengths) * 9 // 10] <= 250


@pytest.mark.parametrize("package", sorted(name for names in PACKAGES.values() for name in names))
def test_every_module_says_what_it_is_for(package: str) -> None:
    silent = [
        str(file.relative_to(ROOT))
        for file in SOURCES
        if package in file.parts and file.read_text().strip() and not ast.get_docstring(ast.parse(file.read_text()))
    ]

    assert silent == []
