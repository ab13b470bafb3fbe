from datetime import UTC, datetime, timedelta, timezone

import pytest
from backstay_contract.metric import MetricName
from backstay_contract.status import Colour
from backstay_operator.desired.flip_record import read, write
from backstay_operator.rollout.observation import FlipRecord
from hypothesis import given
from hypothesis import strategies as st

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
records = st.builds(
    FlipRecord,
    to=st.sampled_from(Colour),
    attempt=st.text(max_size=20),
    reason=st.text(max_size=20),
    at=st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=2))])),
    message=st.text(max_size=50),
    metric=st.none() | st.sampled_from(MetricName),
    observed=st.none() | st.floats(allow_nan=False, allow_infinity=False),
    limit=st.none() | st.floats(allow_nan=False, allow_infinity=False),
    rejects=st.booleans(),
)


@given(records)
def test_a_record_reads_back_as_it_was_written(record: FlipRecord) -> None:
    assert read(write(record)) == record


def test_a_plain_record_is_one_short_line() -> None:
    text = write(FlipRecord(Colour.GREEN, "abc-1", "Promoted", NOON))
    assert text == '{"to": "green", "attempt": "abc-1", "reason": "Promoted", "at": "2026-01-01T12:00:00+00:00"}'


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "7",
        "{}",
        "not json",
        '{"to": "red", "attempt": "a", "reason": "r", "at": "2026-01-01T12:00:00+00:00"}',
        '{"to": "blue", "attempt": "a", "reason": "r", "at": "2026-01-01T12:00:00"}',
        '{"to": "blue", "attempt": "a", "reason": "r", "at": 7}',
        '{"to": "blue", "attempt": "a", "reason": "r", "at": "yesterday"}',
        '{"to": "blue", "attempt": "a", "reason": "r", "at": "2026-01-01T12:00:00Z", "metric": "typo"}',
        '{"to": "blue", "attempt": "a", "reason": "r", "at": "2026-01-01T12:00:00Z", "limit": "x"}',
    ],
)
def test_what_somebody_else_wrote_there_is_no_record(text: str) -> None:
    assert read(text) is None


@given(st.text())
def test_no_text_breaks_the_reader(text: str) -> None:
    read(text)
