"""How far a candidate's pods are: read now and then, from those that fetch, the slowest shown."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from backstay_contract.status import Fetching
from backstay_operator.client import ApiError
from backstay_operator.observe.fetching import EVERY_SECONDS, Fetches, fetches, parse
from hypothesis import given
from hypothesis import strategies as st

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def line(done: int, total: int = 100, message: str = "pulling", **more: object) -> str:
    said = {"at": "x", "message": message, "bytes": done, "bytes_total": total, "mb_per_second": 12.5}
    return json.dumps(said | {"seconds_left": 3.4} | more)


def pod(name: str, state: str = "running", **metadata: str) -> dict[str, Any]:
    return {
        "metadata": {"namespace": "prod", "name": name} | metadata,
        "status": {"initContainerStatuses": [{"name": "pull", "state": {state: {}}}]},
    }


class Logs:
    """A client that only has logs."""

    def __init__(self, **said: str) -> None:
        self.said, self.asked = said, list[str]()

    async def log_tail(self, namespace: str, pod: str, container: str, **_: object) -> str:
        self.asked.append(pod)
        if pod not in self.said:
            raise ApiError(404, "GET", "/log", "no such pod")
        return self.said[pod]


def test_the_last_progress_line_is_what_is_shown() -> None:
    log = "\n".join(['rest": 1}', line(1), line(40), line(40, message="trying again"), "Traceback"])
    assert parse(log) == Fetching(bytes=40, bytes_total=100, bytes_per_second=12_500_000, seconds_left=3)


@pytest.mark.parametrize(
    "log", ["", "{}", "[1]", '"x"', line(-1), line(1, message="model is whole"), '{"message": "pulling"}']
)
def test_a_log_without_one_says_nothing(log: str) -> None:
    assert parse(log) is None


@given(st.text())
def test_no_log_is_an_error(log: str) -> None:
    parse(log)


def test_only_a_pod_whose_pull_runs_fetches() -> None:
    assert fetches(pod("a") | {"spec": {}})
    assert not fetches(pod("a", "terminated"))
    assert not fetches(pod("a", deletionTimestamp="2026-01-01T12:00:00Z"))
    assert not fetches({"metadata": {"name": "a"}})


async def test_the_slowest_pod_is_shown_and_one_without_a_log_is_passed_over() -> None:
    logs = Logs(a=line(90), b=line(20))
    found = await Fetches(logs).read("uid", [pod("a"), pod("b"), pod("c")], NOON)  # type: ignore[arg-type]
    assert found is not None
    assert found.bytes == 20


async def test_logs_are_read_again_only_when_it_is_due() -> None:
    logs = Logs(a=line(1))
    fetching = Fetches(logs)  # type: ignore[arg-type]
    first = await fetching.read("uid", [pod("a")], NOON)
    logs.said["a"] = line(2)
    soon = NOON + timedelta(seconds=EVERY_SECONDS - 1)
    assert await fetching.read("uid", [pod("a")], soon) == first
    assert fetching.due_in("uid", soon) == 1
    later = await fetching.read("uid", [pod("a")], NOON + timedelta(seconds=EVERY_SECONDS))
    assert later is not None
    assert (later.bytes, len(logs.asked)) == (2, 2)


async def test_nothing_is_asked_and_nothing_is_due_once_the_model_is_there() -> None:
    logs = Logs(a=line(1))
    fetching = Fetches(logs)  # type: ignore[arg-type]
    await fetching.read("uid", [pod("a")], NOON)
    assert await fetching.read("uid", [pod("a", "terminated")], NOON) is None
    assert (fetching.due_in("uid", NOON), len(logs.asked)) == (None, 1)
