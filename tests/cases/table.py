"""Cases beside the tests that are about them. Pure, but for reading the lists."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, TypeAdapter, model_validator

FOLDER = Path(__file__).parent


class Case(BaseModel):
    """One trouble and what we demand of ourselves."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str
    demand: str
    applies: bool = True
    why: str = ""
    """Why it does not apply."""

    @model_validator(mode="after")
    def _says_why(self) -> "Case":
        if self.applies == bool(self.why):
            raise ValueError(f"case {self.id}: `why` stands where `applies` is false, and only there")
        return self


class Row(BaseModel):
    """A case and the tests that name it."""

    case: Case
    tests: tuple[str, ...] = ()

    @property
    def missing(self) -> bool:
        return self.case.applies and not self.tests


def read(folder: Path = FOLDER) -> dict[str, tuple[Case, ...]]:
    """The lists by name. Raises ValueError where an id stands in two places."""
    lists = {
        path.stem: TypeAdapter(tuple[Case, ...]).validate_python(yaml.safe_load(path.read_text()) or ())
        for path in sorted(folder.glob("*.yaml"))
    }
    seen: set[str] = set()
    for name, cases in lists.items():
        for case in cases:
            if case.id in seen:
                raise ValueError(f"{name}.yaml: case {case.id} stands there a second time")
            seen.add(case.id)
    return lists


def rows(cases: Iterable[Case], marked: Mapping[str, Iterable[str]]) -> tuple[Row, ...]:
    """Each case with the tests that are marked with its id, each test once."""
    return tuple(Row(case=case, tests=tuple(dict.fromkeys(marked.get(case.id, ())))) for case in cases)


def unknown(lists: Mapping[str, Iterable[Case]], marked: Iterable[str]) -> tuple[str, ...]:
    """Ids that a test names and no list has."""
    known = {case.id for cases in lists.values() for case in cases}
    return tuple(sorted(set(marked) - known))


def lines(row: Row) -> list[str]:
    """What is printed of a case."""
    head = f"{row.case.id:5} {row.case.demand}"
    if not row.case.applies:
        return [head, f"      does not apply: {row.case.why}"]
    if row.missing:
        return [head, "      NO TEST"]
    return [head, *(f"      {test}" for test in row.tests)]
