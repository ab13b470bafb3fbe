"""Student's t."""

from statistics import NormalDist

import pytest
from backstay_judge.student import NORMAL_FROM, quantile
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("probability", "degrees", "published"),
    [
        (0.95, 1, 6.314), (0.95, 2, 2.920), (0.95, 3, 2.353), (0.95, 4, 2.132), (0.95, 10, 1.812), (0.95, 120, 1.658),
        (0.999, 1, 318.31), (0.999, 2, 22.327), (0.999, 3, 10.215), (0.999, 5, 5.893), (0.999, 29, 3.396),
        (0.999, 120, 3.160),
    ],
)  # fmt: skip
def test_it_agrees_with_published_tables(probability: float, degrees: int, published: float) -> None:
    assert quantile(probability, degrees) == pytest.approx(published, rel=3e-4)


@given(st.floats(0.5, 0.9999), st.integers(1, 300))
def test_more_degrees_of_freedom_never_widen_it(probability: float, degrees: int) -> None:
    normal = NormalDist().inv_cdf(probability)
    assert quantile(probability, degrees) >= quantile(probability, degrees + 1) - 1e-9 >= normal - 2e-9


def test_it_meets_the_normal_distribution_where_that_takes_over() -> None:
    assert quantile(0.999, NORMAL_FROM - 1) == pytest.approx(quantile(0.999, NORMAL_FROM), rel=0.01)


@pytest.mark.parametrize(("probability", "degrees"), [(0.4, 3), (1.0, 3), (0.9, 0)])
def test_what_has_no_quantile_is_refused(probability: float, degrees: int) -> None:
    with pytest.raises(ValueError, match=str(probability)):
        quantile(probability, degrees)
