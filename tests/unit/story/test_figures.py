"""Percentiles, losses and gaps are what their names say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.e2e.story import figures, settings
from tests.unit.story.build import NEW, OLD, answer, refused, steady

values = st.lists(st.floats(min_value=0, max_value=1e6), min_size=1, max_size=300)


@given(values, st.floats(min_value=0.01, max_value=1.0))
def test_a_percentile_is_one_of_the_values_and_enough_of_them_do_not_exceed_it(
    found: list[float], fraction: float
) -> None:
    result = figures.percentile(found, fraction)
    assert result in found
    assert sum(value <= result for value in found) >= fraction * len(found) - 1e-9


def test_the_99th_percentile_of_100_values_is_the_99th() -> None:
    assert figures.percentile(range(1, 101), 0.99) == 99


def test_a_percentile_of_nothing_is_an_error() -> None:
    with pytest.raises(ValueError, match="at least one"):
        figures.percentile([], 0.99)


def test_a_refused_connection_is_lost_whoever_is_excused() -> None:
    assert len(figures.lost([answer(0), refused(1)], excused=NEW)) == 1


def test_errors_that_the_worse_version_answered_itself_are_apart() -> None:
    found = [answer(0, status=503, digest=NEW), answer(1, status=503, digest=OLD)]
    assert [one.digest for one in figures.lost(found, excused=NEW)] == [OLD]
    assert [one.digest for one in figures.own_errors(found, NEW)] == [NEW]


def test_without_an_excuse_every_error_is_lost() -> None:
    assert len(figures.lost([answer(0, status=503, digest=NEW)])) == 1


def test_the_longest_gap_is_between_two_good_answers() -> None:
    found = [answer(0, ms=0), answer(1, ms=0), refused(2), answer(5, ms=0), answer(6, ms=0)]
    assert figures.longest_gap(found, 0, 6) == pytest.approx(4)


def test_silence_until_the_end_is_a_gap_too() -> None:
    assert figures.longest_gap([answer(0, ms=0)], 0, 30) == pytest.approx(30)
    assert figures.longest_gap([], 0, 30) == pytest.approx(30)


@given(st.lists(st.floats(min_value=0, max_value=100), max_size=50))
def test_more_answers_never_make_the_longest_gap_longer(times: list[float]) -> None:
    found = [answer(at, ms=0) for at in times]
    assert figures.longest_gap([*found, answer(50, ms=0)], 0, 100) <= figures.longest_gap(found, 0, 100)


def test_moved_after_counts_from_the_flip_to_the_last_request_of_the_losing_side() -> None:
    found = [*steady(0, 10, digest=OLD), answer(10.8, digest=OLD), *steady(11, 20, digest=NEW)]
    assert figures.moved_after(found, NEW, OLD, flip=10, until=20) == pytest.approx(0.8)


def test_all_that_moved_at_once_moved_after_nothing() -> None:
    found = [*steady(0, 10, digest=OLD), *steady(10, 20, digest=NEW)]
    assert figures.moved_after(found, NEW, OLD, flip=10, until=20) == 0


def test_nobody_has_moved_while_the_winner_answers_nothing() -> None:
    assert figures.moved_after(steady(0, 20, digest=OLD), NEW, OLD, flip=10, until=20) is None


def test_the_rate_keeps_the_engine_as_busy_as_is_wanted() -> None:
    assert figures.rate([answer(0, ms=100), answer(1, ms=300)]) == pytest.approx(settings.BUSY / 0.2)


@given(st.lists(st.floats(min_value=0.01, max_value=1e5), min_size=1, max_size=30))
def test_the_rate_stays_within_its_bounds(latencies: list[float]) -> None:
    found = figures.rate([answer(0, ms=ms) for ms in latencies])
    assert settings.LOWEST_RATE <= found <= settings.HIGHEST_RATE


def test_no_rate_is_chosen_by_probes_that_failed() -> None:
    with pytest.raises(ValueError, match="1 of 2 probes"):
        figures.rate([answer(0), refused(1)])
    with pytest.raises(ValueError, match="0 of 0"):
        figures.rate([])


def test_overlapping_requests_keep_an_engine_busy_once() -> None:
    found = [answer(0, ms=2000), answer(1, ms=2000), answer(8, ms=1000)]
    assert figures.busy_fraction(found, 0, 10) == pytest.approx(0.4)


@given(st.lists(st.tuples(st.floats(0, 10), st.floats(0, 5000)), max_size=40))
def test_the_busy_fraction_is_a_fraction(spans: list[tuple[float, float]]) -> None:
    found = [answer(sent, ms=ms) for sent, ms in spans]
    assert 0 <= figures.busy_fraction(found, 0, 10) <= 1 + 1e-9
