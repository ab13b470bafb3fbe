"""The benchmark's own arithmetic."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.storage.__main__ import Measured, pull_bound, push_bound

rates = st.floats(1, 1e5)


@given(rates, rates, st.integers(1, 128))
def test_a_pulls_bound_lies_below_both_kinds_of_work(plain: float, digest: float, cores: int) -> None:
    found = pull_bound({"ranges": Measured("ranges", plain, [], 0), "sha256": Measured("sha256", digest, [], 0)}, cores)
    assert 0 < found < plain
    assert found < digest * cores


@given(rates, rates, st.integers(1, 128), st.integers(1, 128))
def test_a_pushs_bound_lies_below_both_kinds_of_work_and_rises_with_files(
    plain: float, digest: float, cores: int, files: int
) -> None:
    found = {"fput": Measured("fput", plain, [], 0), "sha256": Measured("sha256", digest, [], 0)}
    most = push_bound(found, cores, files)
    assert 0 < most < plain
    assert most < digest * min(files, cores)
    assert most <= push_bound(found, cores, files + 1)


def test_on_two_cores_half_of_the_hashing_comes_on_top() -> None:
    found = {"ranges": Measured("ranges", 2000, [], 0), "sha256": Measured("sha256", 1000, [], 0)}
    assert pull_bound(found, 2) == pytest.approx(1000)
