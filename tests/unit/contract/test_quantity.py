"""Amounts as Kubernetes writes them."""

import re
from decimal import Decimal

import pytest
from backstay_contract import quantity
from backstay_contract.schema import QUANTITY
from hypothesis import given
from hypothesis import strategies as st
from kubernetes.utils import parse_quantity

NUMBERS = st.decimals(0, 10_000, places=3, allow_nan=False, allow_infinity=False)
UNITS = st.sampled_from(["", *(u for u in "num"), "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"])


@given(NUMBERS, UNITS)
def test_an_amount_is_read_as_the_kubernetes_client_reads_it(number: Decimal, unit: str) -> None:
    text = f"{number}{unit}"
    assert quantity.parse(text) == parse_quantity(text)  # type: ignore[no-untyped-call]


@given(st.from_regex(re.compile(QUANTITY, re.ASCII), fullmatch=True))
def test_every_amount_that_the_spec_lets_in_can_be_read(text: str) -> None:
    assert quantity.parse(text) >= 0


@pytest.mark.parametrize(
    ("text", "amount"), [("1e3", 1000), ("12E2", 1200), ("1.5e-1", Decimal("0.15")), ("1E", 10**18), ("1Ei", 2**60)]
)
def test_exponents_and_the_unit_exa_are_told_apart(text: str, amount: Decimal | int) -> None:
    assert quantity.parse(text) == amount


@pytest.mark.parametrize("text", ["", "Gi", "1 Gi", "1gi", "1mi", "1ni", "1.2.3", "one", "1e", "0x10", "NaN", "1e999"])
def test_what_is_no_amount_is_refused_with_its_text(text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(repr(text))):
        quantity.parse(text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [("500m", "0.5"), ("64", "64"), ("3Gi", "3Gi"), ("1500Mi", "1.5Gi"), ("0", "0"), ("2Ti", "2Ti"), ("9Ki", "9216")],
)
def test_an_amount_is_shown_in_the_unit_that_people_use(text: str, shown: str) -> None:
    assert quantity.show(quantity.parse(text)) == shown


@given(NUMBERS)
def test_what_is_shown_is_the_amount_itself_where_no_digit_is_lost(number: Decimal) -> None:
    assert quantity.parse(quantity.show(number)) == number
