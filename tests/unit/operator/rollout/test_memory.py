"""The status may be another version's, or edited: what can be read of it is."""

import copy
from typing import Any

import pytest
from backstay_contract.reasons import Reason
from backstay_contract.status import MAX_REJECTED, ModelDeploymentStatus
from backstay_operator.rollout import memory
from hypothesis import given
from hypothesis import strategies as st

from .world import World, digest, serving


def stored() -> dict[str, Any]:
    world: World = serving("a")
    world.model("b").slow = 0.5
    world.ask("b")
    return world.run(40).status.to_json()


STORED = stored()


def test_a_status_of_this_version_is_read_as_it_is() -> None:
    assert memory.status(STORED).to_json() == STORED
    assert memory.status({}) == ModelDeploymentStatus()


def test_only_what_cannot_be_read_is_left_out() -> None:
    rejected = {**STORED["rejected"][0], "metric": "inventedLater", "inventedLater": [1]}
    status = memory.status({**STORED, "phase": "Later", "rejected": [rejected], "inventedLater": {}})
    assert status.rejected[0].digest == digest("b")
    assert status.rejected[0].metric is None
    assert status.attempt is not None
    assert status.history[0].digest == digest("a")


def test_an_entry_that_cannot_be_one_takes_no_other_with_it() -> None:
    status = memory.status({**STORED, "rejected": [{"digest": "?"}, STORED["rejected"][0], "no entry"]})
    assert [entry.digest for entry in status.rejected] == [digest("b")]


def test_of_a_list_that_is_too_long_the_newest_entries_stay() -> None:
    entries = [{**STORED["rejected"][0], "attempt": f"r-{n}"} for n in range(MAX_REJECTED + 5)]
    status = memory.status({**STORED, "rejected": entries})
    assert [entry.attempt for entry in status.rejected] == [f"r-{n}" for n in range(5, MAX_REJECTED + 5)]


def paths(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where something stands in the status."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    below = [path for key, part in parts for path in paths(part, (*at, key))]
    return [at, *below] if at else below


EDITS = st.lists(
    st.tuples(st.sampled_from(paths(STORED)), st.sampled_from([None, 1, "x", [], {}, [1], {"x": 1}])), max_size=4
)


@given(EDITS)
def test_whatever_stands_in_a_status_it_is_read(edits: list[tuple[tuple[Any, ...], Any]]) -> None:
    body = copy.deepcopy(STORED)
    for path, value in edits:
        holder: Any = body
        try:
            for part in path[:-1]:
                holder = holder[part]
            holder[path[-1]] = value
        except (LookupError, TypeError):
            continue
    memory.status(body)


@pytest.mark.parametrize(
    ("text", "reason"), [("Breach", Reason.BREACH), ("", Reason.SERVING), ("Later", Reason.SERVING)]
)
def test_a_word_of_another_version_is_the_other_reason(text: str, reason: Reason) -> None:
    assert memory.reason(text, Reason.SERVING) is reason
