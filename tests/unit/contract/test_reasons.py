"""The closed list of reasons."""

import json
import re

import pytest
from backstay_contract.reasons import Reason
from backstay_contract.termination import GaveUp


@pytest.mark.parametrize("reason", list(Reason))
def test_a_reason_is_one_word_as_conditions_and_events_want_it(reason: Reason) -> None:
    assert re.fullmatch(r"[A-Z][A-Za-z]{1,62}", reason.value)


@pytest.mark.parametrize("reason", list(Reason))
def test_a_reason_says_what_it_means_in_a_sentence(reason: Reason) -> None:
    assert re.fullmatch(r"[A-Z].{8,160}\.", reason.meaning)


def test_reasons_are_distinct_in_word_and_meaning() -> None:
    assert len({reason.value for reason in Reason}) == len({reason.meaning for reason in Reason}) == len(Reason)


@pytest.mark.parametrize("gave_up", list(GaveUp))
def test_whatever_a_container_says_is_a_reason(gave_up: GaveUp) -> None:
    assert Reason(gave_up.value).value == gave_up.value


def test_a_reason_is_found_by_its_word_and_travels_as_text() -> None:
    assert Reason("Breach") is Reason.BREACH
    assert json.dumps([Reason.BREACH, Reason.DIGEST_MISMATCH]) == '["Breach", "DigestMismatch"]'


def test_no_other_word_is_a_reason() -> None:
    with pytest.raises(ValueError, match="Tired"):
        Reason("Tired")
