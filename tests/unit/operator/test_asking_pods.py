"""What pods are asked over HTTP: the control port, the smoke inference; and their logs."""

import asyncio
import json
import math
from dataclasses import replace
from typing import Any

import pytest
from backstay_contract.metric import MetricName
from backstay_contract.reasons import Reason
from backstay_contract.resource import parse_spec
from backstay_judge import EvaluatedItem
from backstay_operator.http import Answer, HttpError
from backstay_operator.observe import control
from backstay_operator.observe.log_tail import with_log_tails
from backstay_operator.observe.smoke import SmokeMemory, Subject, assess
from backstay_operator.rollout.observation import Evaluation, Pod, PodFailure
from hypothesis import given
from hypothesis import strategies as st

DIGEST = "sha256:" + "ab" * 32
POD = Pod("chat-green-1", "rev", "rev-3", ready=True, ip="10.0.0.1")
SPEC = parse_spec(
    {
        "model": {
            "name": "m",
            "version": "1",
            "uri": "s3://models/m/1",
            "sha256": DIGEST,
            "storage": {"endpoint": "http://minio:9000"},
        }
    }
)
STATE = {"mode": "normal", "inFlight": 3, "digest": DIGEST, "limits": {"p99LatencyMs": 200, "typo": 1}}


def answer(body: Any = None, status: int = 200, digest: str = DIGEST) -> Answer:
    body = {"choices": [{"text": " Paris"}]} if body is None else body
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Answer(status, {"x-model-digest": digest}, raw)


# --- the control port --------------------------------------------------------------------------------------------


async def test_pods_are_asked_with_the_resources_token(http: Any) -> None:
    http.answer("GET", "/control/state$", Answer(200, {}, json.dumps(STATE).encode()))
    said = await control.ask(http, "secret", [POD])
    assert said == {POD.name: control.Said("normal", 3, {MetricName.P99_LATENCY: 200})}
    ((_, url, given_),) = http.requests
    assert url == "http://10.0.0.1:8081/control/state"
    assert given_["headers"] == {"Authorization": "Bearer secret"}


async def test_a_pod_that_does_not_answer_or_is_on_its_way_out_is_left_out(http: Any) -> None:
    http.answer("GET", r"10\.0\.0\.2", Answer(401, {}, b""))
    others = [replace(POD, name="b", ip="10.0.0.2"), replace(POD, name="c", terminating=True), replace(POD, ip=None)]
    assert await control.ask(http, "secret", [POD, *others]) == {}
    assert len(http.requests) == 2


async def test_an_address_of_six_has_its_brackets(http: Any) -> None:
    await control.ask(http, "secret", [replace(POD, ip="fd00::1")])
    assert http.requests[0][1] == "http://[fd00::1]:8081/control/state"


@pytest.mark.parametrize(
    "body",
    [
        None,
        [],
        {},
        {"mode": "normal"},
        {"mode": 1, "inFlight": 1},
        {"mode": "normal", "inFlight": -1},
        {"mode": "normal", "inFlight": True},
        {"mode": "normal", "inFlight": 1.5},
        {"mode": "normal", "inFlight": 0, "limits": [1]},
    ],
)
def test_an_answer_of_another_form_is_no_answer(body: Any) -> None:
    assert control.parse(body) is None


@pytest.mark.parametrize("limit", ["200", True, 0, -1, float("inf"), float("nan"), None])
def test_a_limit_that_cannot_be_one_is_left_out(limit: Any) -> None:
    said = control.parse({"mode": "normal", "inFlight": 0, "limits": {"p99LatencyMs": limit, "errorRate": 0.1}})
    assert said is not None
    assert said.limits == {MetricName.ERROR_RATE: 0.1}


def test_limits_are_known_only_where_all_pods_agree() -> None:
    one = control.Said("normal", 0, {MetricName.ERROR_RATE: 0.1})
    other = control.Said("normal", 0, {MetricName.ERROR_RATE: 0.2})
    assert control.common_limits([]) is None
    assert control.common_limits([one, one]) == one.limits
    assert control.common_limits([one, other]) is None
    assert control.common_limits([control.Said("normal", 0)]) == {}


def evaluated(**changes: Any) -> dict[str, Any]:
    return {"items": 2, "done": 0, "rounds": 1, "problem": "", **changes}


LOSSES = [{"recordedNll": 12.5, "nll": 13.0, "tokens": 7}, {"recordedNll": 3.0, "nll": None, "tokens": 2}]


async def test_the_losses_of_the_evaluation_set_are_asked_for_once_a_round_is_over(http: Any) -> None:
    http.answer("GET", "/control/state$", Answer(200, {}, json.dumps({**STATE, "evaluation": evaluated()}).encode()))
    http.answer("GET", "/control/evaluation$", Answer(200, {}, json.dumps(evaluated(found=LOSSES)).encode()))
    said = await control.ask(http, "secret", [POD])
    (found,) = (await control.evaluations(http, "secret", [POD], said)).values()
    assert (found.items, found.rounds) == (2, 1)
    assert found.found[0] == EvaluatedItem(12.5, 13.0, 7)
    assert math.isnan(found.found[1].nll)
    assert [given_["headers"] for _, _, given_ in http.requests] == [{"Authorization": "Bearer secret"}] * 2


async def test_before_the_first_round_is_over_only_its_progress_is_known(http: Any) -> None:
    http.answer(
        "GET",
        "/control/state$",
        Answer(200, {}, json.dumps({**STATE, "evaluation": evaluated(rounds=0, done=1)}).encode()),
    )
    said = await control.ask(http, "secret", [POD])
    assert await control.evaluations(http, "secret", [POD], said) == {POD.name: Evaluation(items=2, done=1)}
    assert len(http.requests) == 1


async def test_a_runtime_that_knows_no_evaluation_has_an_empty_set(http: Any) -> None:
    http.answer("GET", "/control/state$", Answer(200, {}, json.dumps(STATE).encode()))
    said = await control.ask(http, "secret", [POD])
    assert await control.evaluations(http, "secret", [POD], said) == {POD.name: Evaluation()}


@pytest.mark.case("T41")
@pytest.mark.parametrize(
    "losses",
    [
        None,
        {},
        [1],
        [{"recordedNll": 1.0, "tokens": 1}],
        [{"recordedNll": 1.0, "nll": "much", "tokens": 1}],
        [{"recordedNll": None, "nll": 1.0, "tokens": 1}],
        [{"recordedNll": 1.0, "nll": 1.0, "tokens": 0}],
        [{"recordedNll": 1.0, "nll": 1.0, "tokens": True}],
        [{"recordedNll": 1.0, "nll": 1.0, "tokens": 1.5}],
    ],
)
async def test_losses_of_another_form_are_no_round(http: Any, losses: Any) -> None:
    http.answer("GET", "/control/state$", Answer(200, {}, json.dumps({**STATE, "evaluation": evaluated()}).encode()))
    http.answer("GET", "/control/evaluation$", Answer(200, {}, json.dumps({"found": losses}).encode()))
    said = await control.ask(http, "secret", [POD])
    (found,) = (await control.evaluations(http, "secret", [POD], said)).values()
    assert (found.rounds, found.found) == (1, ())


@pytest.mark.parametrize(
    "failed", [Answer(401, {}, b""), Answer(200, {}, b"<html>"), HttpError("no answer within 2 s")]
)
async def test_losses_that_do_not_come_are_waited_for(http: Any, failed: Any) -> None:
    http.answer("GET", "/control/state$", Answer(200, {}, json.dumps({**STATE, "evaluation": evaluated()}).encode()))
    http.answer("GET", "/control/evaluation$", failed)
    said = await control.ask(http, "secret", [POD])
    assert (await control.evaluations(http, "secret", [POD], said))[POD.name].found == ()


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists, max_leaves=5))
def test_whatever_a_pod_says_of_its_evaluation_is_read_without_trouble(body: Any) -> None:
    for told in (body, {"items": body, "done": body, "rounds": body, "problem": body}):
        found = control.parse_evaluation(told)
        assert min(found.items, found.done, found.rounds) >= 0
        assert len(found.problem) <= control.MAX_PROBLEM
    assert control.parse_losses({"found": body}) in (None, ())


# --- the smoke inference -----------------------------------------------------------------------------------------


@pytest.mark.case("R10", "T07")
def test_an_answer_that_names_the_digest_and_has_choices_passes() -> None:
    smoke = assess("p", DIGEST, answer())
    assert (smoke.passed, smoke.wrong) == (True, False)
    assert assess("p", DIGEST.removeprefix("sha256:"), answer()).passed


@pytest.mark.parametrize(
    "wrong",
    [
        answer(digest="sha256:" + "cd" * 32),
        answer(digest=""),
        answer({"choices": []}),
        answer({}),
        answer([]),
        answer({"choices": [{"text": None}]}),
        answer({"choices": ["Paris"]}),
        answer(b'{"choices": [{"text": "x", "logprobs": {"token_logprobs": [NaN]}}]}'),
        answer(b'{"choices": [{"text": "x", "logprobs": {"token_logprobs": [-Infinity]}}]}'),
        answer(b"<html>"),
        answer({"error": {"code": "non_finite_logits"}}, 500),
        answer({"error": {"message": "no such model"}}, 404),
        answer({"error": {}}, 400),
    ],
)
def test_an_answer_that_cannot_be_right_is_wrong_for_good(wrong: Answer) -> None:
    smoke = assess("p", DIGEST, wrong)
    assert (smoke.passed, smoke.wrong) == (False, True)
    assert smoke.message


@pytest.mark.parametrize("status", [500, 502, 503, 504, 429, 401])
def test_an_answer_that_may_still_come_is_not_wrong(status: int) -> None:
    smoke = assess("p", DIGEST, answer({"error": {"code": "loading"}}, status))
    assert (smoke.passed, smoke.wrong) == (False, False)
    assert str(status) in smoke.message


@given(st.integers(100, 599), st.binary(max_size=40), st.sampled_from([DIGEST, ""]))
def test_no_answer_breaks_the_assessment_and_only_200_with_the_digest_passes(
    status: int, body: bytes, digest: str
) -> None:
    smoke = assess("p", DIGEST, Answer(status, {"x-model-digest": digest}, body))
    assert not (smoke.passed and smoke.wrong)
    if smoke.passed:
        assert (status, digest) == (200, DIGEST)


class Woken:
    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> None:
        self.times += 1


def subject(incarnation: str = "1", attempt: str = "rev-3") -> Subject:
    return Subject("uid", attempt, POD.name, incarnation)


async def ask(memory: SmokeMemory, one: Subject, woken: Woken | None = None) -> Any:
    (smoke,) = await memory.ask(SPEC, DIGEST, {one: POD}, woken or Woken())
    return smoke


async def test_a_pod_is_asked_once_in_an_attempt_and_again_after_a_restart(http: Any) -> None:
    http.answer("POST", "/v1/completions$", answer())
    memory = SmokeMemory(http)
    assert (await ask(memory, subject())).passed
    assert (await ask(memory, subject())).passed
    assert len(http.requests) == 1
    await ask(memory, subject(incarnation="2"))
    await ask(memory, subject(attempt="rev-4"))
    assert len(http.requests) == 3
    assert http.requests[0][2]["body"] == {
        "model": "m",
        "prompt": "The capital of France is",
        "max_tokens": 1,
        "temperature": 0,
    }
    assert http.requests[0][2]["within"] == 30


async def test_a_pod_that_did_not_answer_is_asked_again_and_a_wrong_answer_is_kept(http: Any) -> None:
    memory = SmokeMemory(http)
    http.answer("POST", "/v1/completions$", HttpError("ConnectError"))
    assert (await ask(memory, subject())).message == "smoke inference: ConnectError"
    http.answer("POST", "/v1/completions$", answer(digest="sha256:" + "cd" * 32))
    assert (await ask(memory, subject())).wrong
    http.answer("POST", "/v1/completions$", answer())
    assert (await ask(memory, subject())).wrong


async def test_a_slow_inference_is_not_waited_for_and_its_end_asks_for_a_pass(
    http: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backstay_operator.observe.smoke.PATIENCE_SECONDS", 0.01)
    gate = asyncio.Event()

    async def slowly(_: Any) -> Answer:
        await gate.wait()
        return answer()

    http.answer("POST", "/v1/completions$", slowly)
    memory, woken = SmokeMemory(http), Woken()
    first = await ask(memory, subject(), woken)
    assert (first.passed, first.wrong, first.message) == (False, False, f"pod {POD.name} has not answered yet")
    await ask(memory, subject())
    assert (len(http.requests), woken.times) == (1, 0)
    gate.set()
    await asyncio.sleep(0.01)
    assert woken.times == 1
    assert (await ask(memory, subject())).passed
    assert len(http.requests) == 1


async def test_what_belongs_to_another_attempt_is_forgotten(http: Any) -> None:
    http.answer("POST", "/v1/completions$", answer())
    memory = SmokeMemory(http)
    await ask(memory, subject())
    memory.forget("another uid")
    memory.forget("uid", keep_attempt="rev-3")
    await ask(memory, subject())
    assert len(http.requests) == 1
    memory.forget("uid", keep_attempt="rev-4")
    await ask(memory, subject())
    assert len(http.requests) == 2


# --- logs --------------------------------------------------------------------------------------------------------


def failed(name: str = "p", container: str | None = "serve") -> Pod:
    failure = PodFailure(Reason.CRASH_LOOP, "ended", hard=True, container=container)
    return replace(POD, name=name, failure=failure)


async def tail(api: Any, pod: Pod) -> str | None:
    (one,) = await with_log_tails(api, "prod", (pod,))
    return one.failure.log_tail if one.failure else None


@pytest.mark.case("R78")
async def test_the_log_of_the_run_that_ended_comes_before_the_present_ones(api: Any) -> None:
    api.logs["p", "serve", False] = "starting again"
    assert await tail(api, failed()) == "starting again"
    api.logs["p", "serve", True] = "Traceback: it broke"
    assert await tail(api, failed()) == "Traceback: it broke"
    api.logs["p", "serve", True] = "  \n"
    assert await tail(api, failed()) == "starting again"


async def test_a_kubelet_that_is_away_does_not_delay_the_pass(api: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(*_: Any, **__: Any) -> str:
        await asyncio.sleep(60)
        return ""

    monkeypatch.setattr("backstay_operator.observe.log_tail.SECONDS", 0.01)
    monkeypatch.setattr(api, "log_tail", never)
    async with asyncio.timeout(2):
        pods = await with_log_tails(api, "prod", (failed("p"), failed("q"), POD))
    assert [pod.failure and pod.failure.reason for pod in pods] == [Reason.CRASH_LOOP, Reason.CRASH_LOOP, None]


async def test_a_failure_stands_without_its_log(api: Any) -> None:
    assert await tail(api, failed()) is None
    assert await tail(api, failed(container=None)) is None
    assert await tail(api, POD) is None
