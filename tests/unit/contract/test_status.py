"""The custom resource's status."""

import json
from datetime import UTC, datetime, timedelta, timezone

import pytest
from backstay_contract import status
from backstay_contract.status import Colour, Condition, ModelDeploymentStatus, Rejection, Side, parse_status
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

HEX = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
NOW = datetime(2026, 1, 2, 3, 4, 5, 678901, UTC)


def rejection(number: int) -> Rejection:
    return Rejection(digest=HEX, revision=f"r{number}", version="1", attempt=f"a{number}", reason="Breach", at=NOW)


def test_a_resource_without_a_status_has_an_empty_one() -> None:
    empty = parse_status({})

    assert (empty.phase, empty.active, empty.ready, empty.rejected) == (status.Phase.PENDING, None, "0/0", ())


def test_there_are_two_colours_and_each_is_the_others_other() -> None:
    assert [colour.other for colour in Colour] == [Colour.GREEN, Colour.BLUE]
    assert all(colour.other.other is colour for colour in Colour)


def test_no_pod_has_the_selectors_value_that_selects_nothing() -> None:
    assert status.NO_COLOUR not in set(Colour)


@given(st.datetimes(timezones=st.just(UTC)), st.sampled_from(["True", "False", "Unknown"]))
def test_a_condition_survives_its_way_through_json(at: datetime, value: str) -> None:
    condition = Condition.model_validate(
        {"type": "Ready", "status": value, "reason": "X", "lastTransitionTime": at, "observedGeneration": 3}
    )

    assert Condition.model_validate_json(json.dumps(condition.to_json())) == condition


def test_times_are_written_with_their_zone() -> None:
    east = NOW.astimezone(timezone(timedelta(hours=5)))

    assert rejection(1).with_(at=east).at == NOW
    assert rejection(1).to_json()["at"] == "2026-01-02T03:04:05.678901Z"


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(ValidationError, match="timezone"):
        rejection(1).with_(at=datetime(2026, 1, 2))


@pytest.mark.parametrize(
    ("field", "limit"), [("rejected", status.MAX_REJECTED), ("history", status.MAX_HISTORY), ("conditions", 16)]
)
def test_lists_are_bounded_so_that_a_status_never_outgrows_the_store(field: str, limit: int) -> None:
    entries = {
        "rejected": rejection(0).to_json(),
        "history": {"revision": "r", "digest": HEX, "version": "1", "image": "i", "verified": True, "reason": "X",
                    "at": NOW},
        "conditions": {"type": "Ready", "status": "True", "reason": "X", "lastTransitionTime": NOW,
                       "observedGeneration": 1},
    }  # fmt: skip
    assert len(getattr(parse_status({field: [entries[field]] * limit}), field)) == limit

    with pytest.raises(ValidationError, match=f"at most {limit} items"):
        parse_status({field: [entries[field]] * (limit + 1)})


def test_what_does_not_exist_is_left_out_of_the_json() -> None:
    written = ModelDeploymentStatus(active=Side(colour=Colour.BLUE, version="1", digest=HEX, revision="r")).to_json()

    assert written["active"]["digest"] == f"sha256:{HEX}"
    assert "candidate" not in written
    assert "lastFailure" not in written


def test_an_unknown_phase_or_field_is_refused_with_its_value() -> None:
    with pytest.raises(ValidationError, match="Dreaming"):
        parse_status({"phase": "Dreaming"})
    with pytest.raises(ValidationError, match="mood"):
        parse_status({"mood": "good"})


def test_phases_are_words_of_one_piece() -> None:
    assert all(phase.value.isalpha() and phase.value[0].isupper() for phase in status.Phase)
