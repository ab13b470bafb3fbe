"""Rules that answers are held against: the pure part."""

import pytest
from backstay_contract.output import Fallback, OutputCheck, OutputRule
from backstay_runtime.text.rules import LEAST_REPEATED, broken
from hypothesis import given
from hypothesis import strategies as st


def rule(check: OutputCheck, most: int | None = None) -> OutputRule:
    return OutputRule(rule=check, fallback=Fallback.ERROR, most=most)


LENGTH, EMPTY = rule(OutputCheck.LENGTH, 5), rule(OutputCheck.EMPTY)
ILLEGAL, LOOP = rule(OutputCheck.ILLEGAL_CHARACTERS), rule(OutputCheck.REPETITION)


def sound(one: OutputRule, text: str, *, whole: bool = True) -> int | None:
    finding = broken([one], text, whole=whole)
    return None if finding is None else finding.sound


def test_a_text_that_is_too_long_is_sound_up_to_the_most() -> None:
    assert sound(LENGTH, "12345") is None
    assert sound(LENGTH, "123456") == 5


def test_only_a_whole_text_is_called_empty() -> None:
    assert sound(EMPTY, " \n") == 0
    assert sound(EMPTY, "", whole=False) is None
    assert sound(EMPTY, "a") is None


@pytest.mark.parametrize("bad", ["\x00", "\x1b", "\x7f", "\ufffd", "\uffff"])
def test_what_is_no_character_of_a_text_is_found_at_its_place(bad: str) -> None:
    assert sound(ILLEGAL, f"abc{bad}def") == 3


def test_line_breaks_tabs_and_any_script_are_text() -> None:
    assert sound(ILLEGAL, "a\tb\r\nüñ 日本 \U0001f600 e\u0301") is None


def test_a_passage_over_and_over_again_is_a_loop_that_is_sound_up_to_its_first() -> None:
    passage = "and so it goes, "
    assert sound(LOOP, "Once. " + passage * 9) == len("Once. " + passage)
    assert sound(LOOP, passage * 7) is None


def test_a_line_of_dashes_is_no_loop_and_a_page_of_them_is() -> None:
    assert sound(LOOP, "Title\n" + "-" * (LEAST_REPEATED - 1)) is None
    assert sound(LOOP, "Title\n" + "-" * 500) == len("Title\n") + 1


def test_the_first_rule_in_order_decides() -> None:
    finding = broken([ILLEGAL, LENGTH], "12345\x00", whole=True)
    assert finding is not None
    assert finding.rule is ILLEGAL


def test_without_rules_everything_is_sound() -> None:
    assert broken([], "\x00" * 1000, whole=True) is None


@given(st.text("ab .", max_size=40), st.text("ab .", min_size=1, max_size=30), st.integers(8, 80))
def test_a_loop_is_found_and_what_is_left_of_it_is_none(before: str, passage: str, times: int) -> None:
    text = before + passage * max(times, LEAST_REPEATED)
    found = sound(LOOP, text)
    assert found is not None
    assert found <= len(before) + len(passage)
    assert text.startswith(text[:found])


@given(st.text(max_size=200), st.lists(st.sampled_from([LENGTH, EMPTY, ILLEGAL, LOOP])))
def test_what_is_sound_is_a_beginning_of_the_text(text: str, rules: list[OutputRule]) -> None:
    finding = broken(rules, text, whole=True)
    if finding is not None:
        assert 0 <= finding.sound <= len(text)
        assert finding.rule in rules
