"""What a container says when it gives up."""

import json
from pathlib import Path

import pytest
from backstay_contract import termination
from backstay_contract.termination import EXIT_CODES, MAX_BYTES, TERMINAL, GaveUp, Termination
from hypothesis import given
from hypothesis import strategies as st

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)
long_texts = st.builds(lambda text, times: text * times, texts, st.integers(0, 400))
reasons = st.sampled_from(list(GaveUp))


@given(st.builds(Termination, reason=reasons, message=texts, path=st.none() | texts, actual=st.none() | texts))
def test_a_message_reads_back_equal(message: Termination) -> None:
    assert termination.read(termination.write(message)) == message


@given(
    st.builds(Termination, reason=reasons, message=long_texts, path=long_texts, expected=long_texts, actual=long_texts)
)
def test_a_message_of_any_length_fits_and_keeps_its_reason(message: Termination) -> None:
    text = termination.write(message)

    assert len(text.encode()) <= MAX_BYTES
    read = termination.read(text)
    assert read is not None
    assert read.reason is message.reason
    assert message.message.startswith(read.message)


def test_a_long_sentence_is_cut_before_the_values_that_it_is_about() -> None:
    written = termination.write(
        Termination(reason=GaveUp.DIGEST_MISMATCH, message="x" * 9999, path="model.safetensors", expected="a" * 64)
    )

    read = termination.read(written)
    assert read is not None
    assert (read.path, read.expected) == ("model.safetensors", "a" * 64)
    assert len(written.encode()) == MAX_BYTES


@pytest.mark.parametrize(
    "text",
    ["", "Killed", "{", "null", "[]", "7", '{"reason": "Tired", "message": "x"}', '{"reason": "DigestMismatch"}',
     '{"reason": "DigestMismatch", "message": "x", "more": 1}'],
)  # fmt: skip
def test_what_is_not_ours_is_none(text: str) -> None:
    assert termination.read(text) is None


@given(st.text())
def test_reading_never_fails(text: str) -> None:
    termination.read(text)


def test_every_reason_has_an_exit_code_of_its_own() -> None:
    assert set(EXIT_CODES) == set(GaveUp)
    assert len(set(EXIT_CODES.values())) == len(EXIT_CODES)


def test_no_exit_code_can_be_taken_for_success_or_a_signal() -> None:
    assert all(0 < code < 126 for code in EXIT_CODES.values())


@pytest.mark.parametrize(
    "passing",
    [GaveUp.STORAGE_UNREACHABLE, GaveUp.MODEL_NOT_FOUND, GaveUp.CREDENTIALS_REJECTED, GaveUp.INSUFFICIENT_STORAGE],
)
def test_what_may_pass_by_itself_does_not_reject_the_candidate_at_once(passing: GaveUp) -> None:
    assert passing not in TERMINAL


def test_wrong_bytes_and_wrong_hardware_reject_the_candidate_at_once() -> None:
    assert {GaveUp.DIGEST_MISMATCH, GaveUp.HARDWARE_MISMATCH} <= TERMINAL


def test_the_message_is_one_line_of_json(tmp_path: Path) -> None:
    file = tmp_path / "termination-log"
    file.write_text(termination.write(Termination(reason=GaveUp.INTERNAL, message="one\ntwo – drei")))

    assert "\n" not in file.read_text()
    assert json.loads(file.read_text()) == {"reason": "InternalError", "message": "one\ntwo – drei"}
