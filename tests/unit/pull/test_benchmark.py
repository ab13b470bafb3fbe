"""The benchmark's own arithmetic."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.storage.__main__ import Measured, bound

rates = st.floats(1, 1e5)


@given(rates, rates, st.integers(1, 128))
def test_the_bound_lies_below_both_kinds_of_work(plain: float, digest: float, cores: int) -> None:
    found = bound({"ranges": Measured("ranges", plain, [], 0), "sha256": Measured("sha256", digest, [], 0)}, cores)
    assert 0 < found < plain
    assert found < digest * cores


def test_on_two_cores_half_of_the_hashing_comes_on_top() -> None:
    found = {"ranges": Measured("ranges", 2000, [], 0), "sha256": Measured("sha256", 1000, [], 0)}
    assert bound(found, 2) == pytest.approx(1000)
