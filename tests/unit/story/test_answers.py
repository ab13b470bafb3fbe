"""The load's lines are read as they were written, and nothing that is missing goes unnoticed."""

import json

import pytest

from tests.e2e.story import answers
from tests.e2e.story.answers import Answer


def line(**fields: object) -> str:
    whole = {"kind": "new", "number": 0, "sent": 100.0, "ms": 50.0, "status": 200, "digest": "sha256:aa", "error": None}
    return json.dumps({**whole, **fields}) + "\n"


def test_lines_come_back_as_answers_in_the_order_of_sending() -> None:
    text = line(number=1, sent=101.0) + line(number=0, sent=100.0)
    assert [answer.number for answer in answers.parse(text)] == [0, 1]


def test_an_answer_knows_when_it_ended_and_whether_it_was_good() -> None:
    (answer,) = answers.parse(line(sent=100.0, ms=250.0))
    assert answer.ended == pytest.approx(100.25)
    assert answer.good


@pytest.mark.parametrize(("status", "error"), [(503, "queue_full"), (None, "ConnectionResetError"), (500, None)])
def test_an_answer_without_status_200_is_not_good(status: int | None, error: str | None) -> None:
    (answer,) = answers.parse(line(status=status, error=error))
    assert not answer.good


def test_a_last_line_that_was_cut_off_is_left_out() -> None:
    assert len(answers.parse(line() + line(number=1)[:-9])) == 1


@pytest.mark.parametrize("bad", ["not json\n", "{}\n", line(number=None), line(sent="soon"), "[]\n"])
def test_any_other_line_that_is_no_answer_is_named(bad: str) -> None:
    with pytest.raises(ValueError, match="not a line of the load"):
        answers.parse(line() + bad + line())


def test_a_hole_in_the_numbers_is_a_request_that_no_line_tells_of() -> None:
    found = answers.parse(line(number=0, sent=1.0) + line(number=2, sent=3.0) + line(number=3, sent=4.0))
    assert answers.missing(found, "new", until=5.0) == [1]
    assert answers.missing(found, "new", until=2.0) == [], "what came before is whole"
    assert answers.missing(found, "kept", until=5.0) == []


def test_answers_can_be_told_apart_by_kind_and_model() -> None:
    found = answers.parse(line() + line(kind="kept", digest="sha256:bb"))
    assert [answer.kind for answer in answers.of_kind(found, "kept")] == ["kept"]
    assert isinstance(found[0], Answer)
