"""Documents: frozen values that travel as JSON."""

import json

import pytest
from backstay_contract.base import Document
from backstay_contract.profile import HardwareProfile
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError


class Inner(Document):
    some_number: int = 1
    some_text: str | None = None


class Outer(Document):
    inner_part: Inner = Inner()
    many_parts: tuple[Inner, ...] = ()
    ratio: float = 0.5


inners = st.builds(Inner, some_number=st.integers(), some_text=st.none() | st.text())
outers = st.builds(
    Outer,
    inner_part=inners,
    many_parts=st.lists(inners, max_size=3).map(tuple),
    ratio=st.floats(allow_nan=False, allow_infinity=False),
)


@given(outers)
def test_a_document_survives_its_way_through_json(document: Outer) -> None:
    text = json.dumps(document.to_json())

    assert Outer.model_validate_json(text) == document


def test_the_wire_form_is_camel_case_without_what_is_none() -> None:
    assert Outer(many_parts=(Inner(some_text="x"),)).to_json() == {
        "innerPart": {"someNumber": 1},
        "manyParts": [{"someNumber": 1, "someText": "x"}],
        "ratio": 0.5,
    }


@pytest.mark.parametrize("spelling", ["someNumber", "some_number"])
def test_both_spellings_are_read(spelling: str) -> None:
    assert Inner.model_validate({spelling: 7}).some_number == 7


def test_an_unknown_field_is_refused_with_its_name() -> None:
    with pytest.raises(ValidationError, match="someNumbre"):
        Inner.model_validate({"someNumbre": 7})


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
def test_a_number_that_json_cannot_carry_is_refused(number: float) -> None:
    with pytest.raises(ValidationError, match="finite"):
        Outer(ratio=number)


def test_a_document_cannot_be_changed_in_place() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Inner().some_number = 2


def test_a_changed_copy_leaves_the_original_alone() -> None:
    original = Outer()

    changed = original.with_(ratio=0.25)

    assert (original.ratio, changed.ratio) == (0.5, 0.25)
    assert changed.inner_part == original.inner_part


def test_a_copy_with_a_misspelt_field_is_refused_with_its_name() -> None:
    with pytest.raises(TypeError, match="Inner has no field some_numbre"):
        Inner().with_(some_numbre=2)


def test_a_copy_is_validated() -> None:
    with pytest.raises(ValidationError, match="some_number"):
        Inner().with_(some_number="many")


def test_a_field_with_an_odd_alias_keeps_it_in_a_copy() -> None:
    profile = HardwareProfile(gpu="H100", count=1, min_memory_gi_b=70).with_(count=2)

    assert profile.to_json()["minMemoryGiB"] == 70
