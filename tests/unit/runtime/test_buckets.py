from backstay_runtime.buckets import bucket, buckets_up_to
from hypothesis import given
from hypothesis import strategies as st


@given(st.integers(1, 50_000))
def test_rows_are_padded_by_no_more_than_half_and_many_by_an_eighth(rows: int) -> None:
    assert rows <= bucket(rows) <= max(8, 1.5 * rows)
    assert rows <= 256 or bucket(rows) <= 1.125 * rows
    assert bucket(bucket(rows)) == bucket(rows)


@given(st.integers(1, 5000))
def test_more_rows_are_never_padded_to_fewer(rows: int) -> None:
    assert bucket(rows) <= bucket(rows + 1)


def test_as_many_as_decode_together_on_a_small_machine_are_not_padded() -> None:
    assert buckets_up_to(8) == list(range(1, 9))


def test_there_are_few_numbers() -> None:
    assert len(buckets_up_to(256)) < 24
    assert len(buckets_up_to(4096)) == len(buckets_up_to(256)) + 4 * 8
