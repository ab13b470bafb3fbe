"""When a killed run is said to have ended otherwise than the undisturbed one."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.integration.crash import end_state, judging
from tests.integration.crash.plays import PLAYS
from tests.integration.crash.proxy import When, Write
from tests.integration.crash.sweep import Outcome, Point, points

STATE = {"phase": "Serving", "selector": "green", "attempt": {"outcome": "Verified"}}
UNDISTURBED = Outcome(
    Point(PLAYS[1], 0, When.BEFORE), None, 20, STATE, Counter(["NewRevision", "Promoted", "Verified"]), 5.0
)


def killed(**changes: Any) -> Outcome:
    point = Point(PLAYS[1], 3, When.AFTER)
    return replace(UNDISTURBED, point=point, write=Write("PATCH", "services", "chat"), **changes)


def test_the_same_end_is_no_fault() -> None:
    assert judging.fault(killed(), UNDISTURBED) == ""


def test_another_end_is_named_by_field_and_values() -> None:
    other = killed(state={**STATE, "selector": "none"})
    assert judging.fault(other, UNDISTURBED) == "selector: green != none"


def test_an_event_that_was_lost_with_the_process_is_a_fault() -> None:
    outcome = killed(events=Counter(["NewRevision", "Verified"]))
    assert judging.fault(outcome, UNDISTURBED) == "not told: {'Promoted': 1}"


@pytest.mark.parametrize("more", ["Promoted", "SelectorRestored"])
def test_an_event_that_is_told_twice_or_is_new_is_a_fault(more: str) -> None:
    outcome = killed(events=UNDISTURBED.events + Counter([more]))
    assert "told once too often" in judging.fault(outcome, UNDISTURBED)


def test_a_run_that_did_not_come_to_an_end_is_a_fault() -> None:
    assert judging.fault(killed(problem="not over after 60 s"), UNDISTURBED) == "not over after 60 s"


def test_a_line_names_the_write_and_what_came_of_it() -> None:
    assert "PATCH services/chat" in judging.line(killed(), "")
    assert "DIFFERENT: phase" in judging.line(killed(), "phase: a != b")
    assert "2 of them killed" in judging.summary([killed(), killed(), UNDISTURBED], 0, 1.0)


@given(st.dictionaries(st.text(max_size=3), st.integers()), st.dictionaries(st.text(max_size=3), st.integers()))
def test_two_ends_differ_exactly_where_they_are_not_equal(one: dict[str, int], other: dict[str, int]) -> None:
    assert (end_state.difference(one, other) == "") == (one == other)


@given(st.integers(0, 40), st.integers(1, 9))
def test_a_sample_takes_every_nth_point_and_all_of_them_are_both_sides_of_each_write(writes: int, every: int) -> None:
    whole = list(points(PLAYS[0], writes, 1))
    assert [(one.number, one.when) for one in whole] == [(n, w) for n in range(1, writes + 1) for w in When]
    sample = list(points(PLAYS[0], writes, every))
    assert set(sample) <= set(whole)
    assert abs(len(sample) - len(whole) / every) <= 1
