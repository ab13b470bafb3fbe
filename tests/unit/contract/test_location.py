"""Uris and keys: what the resource takes, the command line and the pull take too, and nothing is decoded."""

import re

import pytest
from backstay_contract import location
from backstay_contract.location import MAX_LENGTH, Location
from backstay_contract.resource import Model
from hypothesis import given
from hypothesis import strategies as st

parts = st.text("abcXYZ019 ._-+=@", min_size=1).filter(lambda part: part not in (".", ".."))
prefixes = st.lists(parts, min_size=1, max_size=4).map("/".join)


def test_a_uri_is_a_bucket_and_a_prefix() -> None:
    assert location.parse("s3://models/chat/1.2.0") == Location("models", "chat/1.2.0")
    assert location.parse("s3://models/chat").key("config.json") == "chat/config.json"


@given(prefixes)
def test_a_prefix_is_taken_literally_and_written_as_it_was_read(prefix: str) -> None:
    found = location.parse(f"s3://models/{prefix}")

    assert found.prefix == prefix
    assert location.parse(str(found)) == found


@given(prefixes)
def test_a_slash_at_the_end_is_nothing(prefix: str) -> None:
    assert location.parse(f"s3://models/{prefix}/") == location.parse(f"s3://models/{prefix}")


@given(prefixes, st.text(min_size=1))
def test_a_key_is_the_path_below_the_prefix_whatever_is_in_it(prefix: str, path: str) -> None:
    assert Location("models", prefix).key(path).removeprefix(prefix) == f"/{path}"


@pytest.mark.parametrize(
    "text",
    [
        "models/chat", "s3://models", "s3://models/", "s3:///chat", "s3://Models/chat", "s3://models//chat",
        "s3://models/a/../b", "s3://models/./a", "s3://models/ü", "s3://models/a%20b", "http://models/a",
        "s3://models/a\n", f"s3://models/{'a' * MAX_LENGTH}",
    ],
)  # fmt: skip
def test_anything_else_is_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(repr(text)[:20])):
        location.parse(text)


def test_the_resource_takes_the_same_uris() -> None:
    schema = Model.model_json_schema()["properties"]["uri"]

    assert (schema["pattern"], schema["maxLength"]) == (location.PATTERN, MAX_LENGTH)


@pytest.mark.parametrize(("text", "means"), [("s3://models/chat", True), ("models/chat", False), ("./s3:", False)])
def test_a_uri_is_told_from_a_folder(text: str, means: bool) -> None:
    assert location.is_uri(text) is means
