"""What the soak concludes from readings of a process's memory."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.soak.growth import growth

STEPS = range(500, 20_001, 500)


def test_a_process_that_keeps_something_of_each_request_grows() -> None:
    found = growth([(done, 300_000_000 + 1000 * done) for done in STEPS])
    assert found.bytes_per_request == pytest.approx(1000)
    assert not found.flat


def test_a_process_that_grows_at_first_and_then_stays_is_flat() -> None:
    assert growth([(done, 300_000_000 + min(done, 5000) * 10_000) for done in STEPS]).flat


def test_one_outlier_is_no_growth() -> None:
    readings = [(done, 300_000_000) for done in STEPS]
    readings[-1] = (20_000, 400_000_000)
    assert growth(readings).flat


@given(st.integers(10**7, 10**9), st.integers(-(10**5), 10**5))
def test_a_steady_slope_is_read_as_it_is(size: int, wavering: int) -> None:
    readings = [(done, size + (wavering if done % 1000 else 0)) for done in STEPS]
    assert abs(growth(readings).bytes_per_request) <= abs(wavering) / 500


def test_too_few_readings_are_refused() -> None:
    with pytest.raises(ValueError, match="make the run longer"):
        growth([(500, 1)])
