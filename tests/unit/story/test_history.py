"""What the watches saw, read."""

import io
import json
from typing import Any

import pytest

from tests.e2e.story import history, watch
from tests.unit.story.build import resource, service


def test_the_same_selector_seen_again_is_no_flip() -> None:
    seen = [service(1, "none"), service(2, "blue"), service(3, "blue"), service(4, "green")]
    assert [(flip.at, flip.colour) for flip in history.flips(seen)] == [(1, "none"), (2, "blue"), (4, "green")]


def test_a_nested_field_of_the_status_can_be_asked_for() -> None:
    seen = [resource(1, "Starting", attempt={"version": "1"}), resource(2, "Checking", attempt={"version": "2"})]
    found = history.first(seen, 0, attempt__version="2")
    assert found is not None
    assert found.at == 2


def test_what_was_seen_before_does_not_count() -> None:
    assert history.first([resource(1, "Serving")], 2, phase="Serving") is None


def test_a_resource_without_a_status_matches_nothing() -> None:
    assert not history.matches({}, {"phase": "Serving"})
    assert not history.matches({"status": {"attempt": None}}, {"attempt__version": "1"})


def pod(**changes: Any) -> dict[str, Any]:
    status = {
        "initContainerStatuses": [
            {"state": {"terminated": {"startedAt": "2026-01-01T00:00:01Z", "finishedAt": "2026-01-01T00:00:04Z"}}}
        ],
        "containerStatuses": [{"state": {"running": {"startedAt": "2026-01-01T00:00:05Z"}}}],
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:11Z"}],
    }
    return {"metadata": {}, "status": {**status, **changes}}


def test_a_ready_pod_tells_how_long_it_pulled_and_loaded() -> None:
    times = history.pod_times(pod())
    assert times == history.PodTimes(pull_s=3, load_s=6)


@pytest.mark.parametrize(
    "changes",
    [
        {"conditions": []},
        {"conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T00:00:11Z"}]},
        {"initContainerStatuses": [{"state": {"running": {"startedAt": "2026-01-01T00:00:01Z"}}}]},
        {"containerStatuses": [{"state": {"waiting": {}}}]},
        {"initContainerStatuses": []},
    ],
)
def test_a_pod_that_is_not_ready_tells_nothing(changes: dict[str, Any]) -> None:
    assert history.pod_times(pod(**changes)) is None


def test_watched_documents_are_read_one_a_line() -> None:
    text = '{"type":"ADDED","object":{"a":{"b":1}}}\n{"type":"MODIFIED","object":{}}\n'
    assert [one["type"] for one in watch.documents(io.StringIO(text))] == ["ADDED", "MODIFIED"]


def test_watched_documents_are_read_indented() -> None:
    documents = [{"type": "ADDED", "object": {"a": {"b": [1, {}]}, "c": "}"}}, {"type": "MODIFIED", "object": {}}]
    text = "".join(json.dumps(one, indent=4) + "\n" for one in documents)
    assert list(watch.documents(io.StringIO(text))) == documents
