"""The lists of cases, and which tests are about them."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.cases import table
from tests.cases.table import Case

IDS = st.text("RTKSI0123456789", min_size=1, max_size=4)


def test_the_committed_lists_are_read_and_no_id_stands_twice() -> None:
    lists = table.read()
    assert {"rollouts", "serving", "situations"} <= lists.keys()
    assert all(cases for cases in lists.values())


def test_an_id_that_stands_in_two_lists_is_refused(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.yaml").write_text("- {id: R1, demand: something}\n")
    with pytest.raises(ValueError, match=r"two\.yaml: case R1 stands there a second time"):
        table.read(tmp_path)


@pytest.mark.parametrize("case", [{"applies": False}, {"why": "because"}, {"applies": True, "why": "because"}])
def test_what_does_not_apply_says_why_and_nothing_else_does(case: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match="case R1: `why` stands where"):
        Case.model_validate({"id": "R1", "demand": "something", **case})


def test_a_word_that_a_case_does_not_have_is_refused() -> None:
    with pytest.raises(ValidationError, match="test"):
        Case.model_validate({"id": "R1", "demand": "something", "test": "x"})


@given(st.dictionaries(IDS, st.lists(st.sampled_from(["a", "b", "c"]))), st.sets(IDS))
def test_every_case_has_a_row_and_is_missing_exactly_where_no_test_names_it(
    marked: dict[str, list[str]], ids: set[str]
) -> None:
    rows = table.rows([Case(id=one, demand="d") for one in sorted(ids)], marked)
    assert [row.case.id for row in rows] == sorted(ids)
    assert {row.case.id for row in rows if row.missing} == {one for one in ids if not marked.get(one)}
    assert all(len(row.tests) == len(set(row.tests)) for row in rows)


@given(st.sets(IDS), st.sets(IDS))
def test_a_marker_that_names_no_case_is_unknown(known: set[str], named: set[str]) -> None:
    lists = {"one": [Case(id=one, demand="d") for one in known]}
    assert set(table.unknown(lists, named)) == named - known


def test_a_case_is_printed_with_its_tests_or_with_what_is_missing() -> None:
    case = Case(id="R1", demand="something")
    assert table.lines(table.rows([case], {"R1": ["t::a", "t::b"]})[0])[1:] == ["      t::a", "      t::b"]
    assert table.lines(table.rows([case], {})[0])[1:] == ["      NO TEST"]
    other = Case(id="R2", demand="other", applies=False, why="there is no mesh")
    (row,) = table.rows([other], {})
    assert table.lines(row)[1:] == ["      does not apply: there is no mesh"]
    assert not row.missing
