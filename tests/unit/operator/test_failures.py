from typing import Any

import pytest
from backstay_contract import termination
from backstay_contract.reasons import Reason
from backstay_contract.termination import EXIT_CODES, TERMINAL, GaveUp, Termination
from backstay_operator.rollout.failures import MAX_MESSAGE, failure_of, unschedulable
from hypothesis import given
from hypothesis import strategies as st

Json = dict[str, Any]


def pod(*, init: Json | None = None, serve: Json | None = None, **status: Any) -> Json:
    if init is not None:
        status["initContainerStatuses"] = [{"name": "pull", **init}]
    if serve is not None:
        status["containerStatuses"] = [{"name": "serve", **serve}]
    return {"metadata": {"name": "chat-green-1"}, "status": status}


def gave_up(reason: GaveUp, restarts: int = 0, message: str = "what was found") -> Json:
    said = termination.write(Termination(reason=reason, message=message))
    ended = {"exitCode": EXIT_CODES[reason], "reason": "Error", "message": said}
    if restarts == 0:
        return {"restartCount": 0, "state": {"terminated": ended}}
    waiting = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 20s"}}
    return {"restartCount": restarts, "state": waiting, "lastState": {"terminated": ended}}


RUNNING: Json = {"state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}, "ready": True, "restartCount": 0}


def test_a_pod_that_only_starts_has_no_failure() -> None:
    assert failure_of({"metadata": {}, "status": {}}) is None
    assert failure_of({"metadata": {}}) is None
    assert failure_of(pod(init={"state": {"running": {}}, "restartCount": 0}, phase="Pending")) is None
    assert failure_of(pod(serve=RUNNING)) is None


@pytest.mark.parametrize("reason", sorted(TERMINAL))
@pytest.mark.case("R77")
def test_what_another_try_cannot_cure_is_hard_at_once(reason: GaveUp) -> None:
    failure = failure_of(pod(init=gave_up(reason)))
    assert failure is not None
    assert (failure.reason, failure.hard, failure.container) == (Reason(reason), True, "pull")
    assert (failure.exit_code, failure.message) == (EXIT_CODES[reason], "what was found")


@pytest.mark.parametrize("reason", sorted(set(GaveUp) - TERMINAL))
def test_what_may_pass_is_hard_only_after_three_restarts(reason: GaveUp) -> None:
    judged = [failure_of(pod(init=gave_up(reason, restarts))) for restarts in range(5)]
    assert [f.hard for f in judged if f] == [False, False, False, True, True]
    assert {f.reason for f in judged if f} == {Reason(reason)}


def test_every_reason_of_a_container_is_a_reason_of_ours() -> None:
    assert {Reason(reason).value for reason in GaveUp} == {reason.value for reason in GaveUp}


def test_an_init_container_that_did_its_work_after_a_failure_is_no_failure() -> None:
    before = gave_up(GaveUp.STORAGE_UNREACHABLE, 1)
    now = {**before, "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}
    assert failure_of(pod(init=now)) is None


def test_a_failure_is_kept_while_the_container_tries_again() -> None:
    again = {**gave_up(GaveUp.STORAGE_UNREACHABLE, 1), "state": {"running": {}}, "ready": False}
    failure = failure_of(pod(init=again))
    assert failure is not None
    assert failure.reason is Reason.STORAGE_UNREACHABLE


@pytest.mark.parametrize("place", ["state", "lastState"])
@pytest.mark.case("T19")
def test_a_kill_for_memory_is_hard_in_the_present_and_in_the_last_state(place: str) -> None:
    killed = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
    serve = {**RUNNING, "restartCount": 1, place: killed}
    failure = failure_of(pod(serve=serve))
    assert failure is not None
    assert (failure.reason, failure.hard, failure.exit_code) == (Reason.OOM_KILLED, True, 137)


@pytest.mark.parametrize(
    ("reason", "hard"),
    [("ErrImagePull", False), ("ImagePullBackOff", True), ("InvalidImageName", True), ("ErrImageNeverPull", True)],
)
def test_an_image_that_does_not_come_is_hard_once_the_kubelet_backs_off(reason: str, hard: bool) -> None:
    waiting = {"waiting": {"reason": reason, "message": "no such tag"}}
    failure = failure_of(pod(init={"state": waiting, "restartCount": 0, "image": "runtime:2"}))
    assert failure is not None
    assert (failure.reason, failure.hard, failure.message) == (
        Reason.IMAGE_PULL_FAILED,
        hard,
        "runtime:2: no such tag",
    )


@pytest.mark.parametrize("reason", ["CreateContainerConfigError", "CreateContainerError", "RunContainerError"])
def test_a_missing_secret_may_still_come(reason: str) -> None:
    waiting = {"waiting": {"reason": reason, "message": 'secret "models-reader" not found'}}
    failure = failure_of(pod(init={"state": waiting, "restartCount": 0}))
    assert failure is not None
    assert (failure.reason, failure.hard) == (Reason.POD_CONFIG_INVALID, False)
    assert "models-reader" in failure.message


def crashed(restarts: int, ready: bool = False) -> Json:
    state = {"running": {}} if ready else {"waiting": {"reason": "CrashLoopBackOff"}}
    last = {"terminated": {"exitCode": 1, "reason": "Error", "message": "Traceback"}}
    return {"state": state, "ready": ready, "restartCount": restarts, "lastState": last}


@pytest.mark.case("T06")
def test_a_crash_without_words_of_ours_has_its_exit_code_and_last_words() -> None:
    failure = failure_of(pod(serve=crashed(3)))
    assert failure is not None
    assert (failure.reason, failure.hard, failure.exit_code) == (Reason.CRASH_LOOP, True, 1)
    assert failure.message == "container serve ended with exit code 1: Traceback, restarted 3 times"


def test_one_crash_that_is_over_is_no_failure_and_three_are_even_if_it_runs() -> None:
    assert failure_of(pod(serve=crashed(1, ready=True))) is None
    judged = failure_of(pod(serve=crashed(3, ready=True)))
    assert judged is not None
    assert judged.hard


def test_an_unknown_end_is_said_by_its_name() -> None:
    ended = {"terminated": {"exitCode": 128, "reason": "ContainerCannotRun"}}
    failure = failure_of(pod(serve={"state": ended, "restartCount": 0}))
    assert failure is not None
    assert failure.message == "container serve ended with exit code 128 (ContainerCannotRun)"


@pytest.mark.parametrize(
    ("message", "hard"),
    [
        ("Pod ephemeral local storage usage exceeds the total limit of containers 1Gi.", True),
        ('Usage of EmptyDir volume "models" exceeds the limit "1Gi".', True),
        ("The node was low on resource: memory.", False),
    ],
)
@pytest.mark.case("T30")
def test_an_eviction_is_hard_where_the_pod_itself_is_the_cause(message: str, hard: bool) -> None:
    failure = failure_of(pod(reason="Evicted", phase="Failed", message=message))
    assert failure is not None
    assert (failure.reason, failure.hard, failure.message) == (Reason.EVICTED, hard, message)


def test_a_hard_failure_is_found_behind_a_soft_one() -> None:
    soft = {"waiting": {"reason": "CreateContainerConfigError"}}
    found = failure_of(pod(init={"state": soft, "restartCount": 0}, serve=crashed(3)))
    assert found is not None
    assert found.reason is Reason.CRASH_LOOP


def test_a_pod_without_room_says_so_in_the_schedulers_words() -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}
    assert unschedulable(pod(conditions=[condition])) == "0/1 nodes"
    assert unschedulable(pod(conditions=[{**condition, "status": "True"}])) is None
    assert unschedulable({"metadata": {}}) is None


states = st.fixed_dictionaries(
    {},
    optional={
        "waiting": st.fixed_dictionaries({}, optional={"reason": st.text(max_size=20), "message": st.text()}),
        "running": st.just({}),
        "terminated": st.fixed_dictionaries(
            {"exitCode": st.integers(0, 255)}, optional={"reason": st.text(max_size=20), "message": st.text()}
        ),
    },
)


@given(states, states, st.integers(0, 9), st.booleans())
def test_no_status_of_a_container_breaks_it_and_no_message_is_too_long(
    state: Json, last: Json, restarts: int, ready: bool
) -> None:
    status = {"state": state, "lastState": last, "restartCount": restarts, "ready": ready}
    failure = failure_of(pod(serve=status, init=status))
    assert failure is None or len(failure.message) <= MAX_MESSAGE
