"""YAML of generated files: any JSON value reads back, and people can read it too."""

from typing import Any

import pytest
import yaml
from backstay_contract import yaml_text
from hypothesis import given
from hypothesis import strategies as st

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
awkward = st.sampled_from(
    ["", " ", "~", "null", "Yes", "off", "y", "N", "1", "1.0", "1e3", "0x1f", ".5", ".inf", ".NaN", "2026-01-02",
     "1:30", ".0", "/", "1e+300",
     "a: b", "a #b", "#", "- a", "-", "---", "...", "?", "!tag", "&a", "*a", "%x", "@", "`a`", "'a'", '"a"', "it's",
     "a\nb", "a\tb", "a ", " a", "[a]", "{a}", "a, b", "a:", ":a", "=", "<<", "|", ">", "\x07", "\x85", "\u2028",
     "\ufeff", "ü", "𮯡"]
)  # fmt: skip
numbers = (
    st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from([1e300, -1e-300, 1.5e22, 1e16, 1e12])
)
values = st.recursive(
    st.none() | st.booleans() | numbers | texts | awkward,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts | awkward, inner, max_size=4),
    max_leaves=12,
)


@given(values)
def test_what_is_written_reads_back_equal(value: Any) -> None:
    assert yaml.safe_load(yaml_text.dump(value)) == value


@given(values)
def test_writing_is_deterministic_and_ends_in_one_newline(value: Any) -> None:
    text = yaml_text.dump(value)

    assert text == yaml_text.dump(value)
    assert text.endswith("\n")
    assert not text.endswith("\n\n")


@given(st.lists(values, max_size=5))
def test_a_list_reads_back_with_its_types(value: list[Any]) -> None:
    read = yaml.safe_load(yaml_text.dump(value))

    assert [type(item) for item in read] == [type(item) for item in value]


def test_keys_keep_their_order() -> None:
    assert list(yaml.safe_load(yaml_text.dump({"b": 1, "a": 2}))) == ["b", "a"]


def test_it_looks_as_people_write_it() -> None:
    value: dict[str, Any] = {
        "kind": "List",
        "empty": {},
        "none": [],
        "version": "1.0",
        "on": True,
        "items": [{"name": "a", "ports": [80, 443]}, [1, 2], "plain words, and a comma"],
    }

    assert yaml_text.dump(value) == (
        "kind: List\n"
        "empty: {}\n"
        "none: []\n"
        'version: "1.0"\n'
        '"on": true\n'
        "items:\n"
        "- name: a\n"
        "  ports:\n"
        "  - 80\n"
        "  - 443\n"
        "- - 1\n"
        "  - 2\n"
        "- plain words, and a comma\n"
    )


@pytest.mark.parametrize("text", ["true", "No", "null", "1", "a: b", "# a", ""])
def test_a_text_that_yaml_would_read_otherwise_is_quoted(text: str) -> None:
    assert yaml_text.dump(text) == f'"{text}"\n'
