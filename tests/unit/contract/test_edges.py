"""Bucket edges: exact at each limit."""

import itertools

import pytest
from backstay_contract import edges
from hypothesis import given
from hypothesis import strategies as st

limits = st.lists(st.floats(1e-6, 1e6), max_size=5)


@given(limits)
def test_edges_ascend_and_are_distinct(given_limits: list[float]) -> None:
    found = edges.bucket_edges(given_limits)

    assert all(left < right for left, right in itertools.pairwise(found))
    assert found[0] > 0


@given(limits)
def test_the_grid_is_always_there(given_limits: list[float]) -> None:
    assert set(edges.GRID_SECONDS) <= set(edges.bucket_edges(given_limits))


@given(st.floats(1e-6, 1e6))
def test_a_limit_and_its_multiples_have_an_edge(limit: float) -> None:
    found = set(edges.bucket_edges([limit]))

    assert {round(limit * multiple, 9) for multiple in (1.0, 1.5, 2.0, 3.0, 5.0)} <= found


def test_a_limit_in_whole_milliseconds_has_an_edge_that_is_equal_to_it() -> None:
    for milliseconds in range(1, 2000):
        assert milliseconds / 1000 in edges.bucket_edges([milliseconds / 1000])


def test_the_order_of_limits_does_not_matter() -> None:
    assert edges.bucket_edges([0.3, 0.7]) == edges.bucket_edges([0.7, 0.3, 0.3])


def test_without_a_limit_there_is_the_grid_alone() -> None:
    assert edges.bucket_edges([]) == edges.GRID_SECONDS


@pytest.mark.parametrize("limit", [0.0, -1.0, float("nan"), float("inf"), 1e-10, 1e308])
def test_a_limit_that_no_edge_can_stand_for_is_refused_with_its_value(limit: float) -> None:
    with pytest.raises(ValueError, match="has no bucket edge") as caught:
        edges.bucket_edges([limit])
    assert f"{limit} s" in str(caught.value)
