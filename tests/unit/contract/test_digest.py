"""Digests are SHA-256, in one spelling."""

import hashlib

import pytest
from backstay_contract import digest
from backstay_contract.base import Document
from backstay_contract.digest import Digest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

HEX = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
hexes = st.text("0123456789abcdef", min_size=64, max_size=64)
BAD = [
    "",
    "sha256:",
    HEX[:-1],
    HEX + "0",
    HEX.upper(),
    "SHA256:" + HEX,
    "sha512:" + HEX,
    " " + HEX,
    HEX + "\n",
    "g" * 64,
    "sha256:sha256:" + HEX,
]


class Holder(Document):
    digest: Digest


@given(st.binary())
def test_the_digest_of_bytes_is_their_sha256(data: bytes) -> None:
    assert digest.of_bytes(data) == "sha256:" + hashlib.sha256(data).hexdigest()


@given(hexes)
def test_both_spellings_become_one(text: str) -> None:
    assert digest.normalise(text) == digest.normalise("sha256:" + text) == "sha256:" + text


@given(hexes)
def test_normalising_twice_changes_nothing(text: str) -> None:
    assert digest.normalise(digest.normalise(text)) == digest.normalise(text)


@given(hexes)
def test_the_hex_digits_alone_name_a_folder(text: str) -> None:
    assert digest.hex_of("sha256:" + text) == digest.hex_of(text) == text


@given(hexes)
def test_the_short_form_is_for_people_and_begins_the_digest(text: str) -> None:
    assert digest.short(text) == text[:12]


@pytest.mark.parametrize("text", BAD)
def test_what_is_no_digest_is_refused_with_its_text_and_the_remedy(text: str) -> None:
    with pytest.raises(ValueError, match="write 64 lower-case hex digits") as caught:
        digest.normalise(text)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize("text", BAD)
def test_a_document_refuses_it_too(text: str) -> None:
    with pytest.raises(ValidationError, match="digest"):
        Holder(digest=text)


@given(hexes)
def test_a_document_holds_the_one_spelling(text: str) -> None:
    assert Holder(digest=text) == Holder(digest="sha256:" + text)
    assert Holder(digest=text).digest == "sha256:" + text
