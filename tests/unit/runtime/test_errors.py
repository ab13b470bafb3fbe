import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from backstay_runtime.api.body import MAX_BYTES
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from . import tiny
from .machinery import make_engine
from .serving import Connection, Place, place


@pytest.fixture
async def here(folder: Path) -> AsyncIterator[Place]:
    async with place(folder) as one:
        yield one


def check_error(answer: Any, status: int, code: str, param: str | None = None) -> str:
    """The one error object; returns its message."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code", "trace_id"}
    assert (error["code"], error["param"]) == (code, param)
    assert error["trace_id"] == answer.headers["x-trace-id"]
    message: str = error["message"]
    return message


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"prompt": ""}, "prompt"),
        ({"prompt": []}, "prompt"),
        ({"prompt": [""]}, "prompt"),
        ({"prompt": [[]]}, "prompt"),
        ({"prompt": ["a", ""]}, "prompt[1]"),
        ({"prompt": None}, "prompt"),
        ({"prompt": {"a": 1}}, "prompt"),
        ({"prompt": [1, "a"]}, "prompt"),
        ({"prompt": [1, True]}, "prompt"),
        ({"prompt": [-1]}, "prompt"),
        ({"prompt": [tiny.VOCABULARY]}, "prompt"),
        ({"prompt": [10**30]}, "prompt"),
        ({"prompt": ["a"] * 33}, "prompt"),
        ({}, "prompt"),
        ({"prompt": "a", "max_tokens": -1}, "max_tokens"),
        ({"prompt": "a", "max_tokens": "5"}, "max_tokens"),
        ({"prompt": "a", "max_tokens": 0}, None),
        ({"prompt": "a", "temperature": -0.1}, "temperature"),
        ({"prompt": "a", "top_p": 1.1}, "top_p"),
        ({"prompt": "a", "n": 0}, "n"),
        ({"prompt": "a", "n": 9}, "n"),
        ({"prompt": "a", "n": True}, "n"),
        ({"prompt": "a", "logprobs": 21}, "logprobs"),
        ({"prompt": "a", "best_of": 9}, "best_of"),
        ({"prompt": "a", "stop": ["a"] * 5}, "stop"),
        ({"prompt": "a", "stop": ["a" * 201]}, "stop"),
        ({"prompt": "a", "stop": [""]}, "stop"),
        ({"prompt": "a", "stop": 5}, "stop"),
        ({"prompt": "a", "seed": 2**64}, "seed"),
        ({"prompt": "a", "logit_bias": {"a": 5}}, "logit_bias"),
        ({"prompt": "a", "suffix": "b"}, None),
        ({"prompt": "a", "timeout": 0}, "timeout"),
        ({"prompt": "a", "stream_options": 5}, "stream_options"),
    ],
)
@pytest.mark.case("I9", "I39")
async def test_a_wrong_field_is_named_and_the_next_request_is_served(
    here: Place, body: dict[str, Any], param: str | None
) -> None:
    answer = await here.complete(**body)
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["param"] == param
    assert (await here.complete(prompt="a", max_tokens=1)).status_code == 200


@pytest.mark.case("I9")
async def test_a_prompt_of_spaces_is_a_prompt(here: Place) -> None:
    assert (await here.complete(prompt="  \n", max_tokens=1)).status_code == 200


@pytest.mark.case("I11")
async def test_a_prompt_that_is_too_long_says_most_and_given_before_it_costs_anything(here: Place) -> None:
    answer = await here.complete(prompt=[1] * 128, max_tokens=1)
    message = check_error(answer, 400, "context_length_exceeded", "prompt")
    assert "128 tokens" in message
    assert here.engine.idle


async def test_another_model_is_not_found(here: Place) -> None:
    message = check_error(await here.complete(prompt="a", model="gpt-4"), 404, "model_not_found", "model")
    assert "'tiny'" in message


async def test_unknown_paths_and_methods_have_the_error_object_too(here: Place) -> None:
    check_error(await here.client.get("/nowhere"), 404, "not_found")
    check_error(await here.client.get("/v1/completions"), 405, "method_not_allowed")


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "invalid_json"),
        (b"{", "invalid_json"),
        (b"[1]", "invalid_json"),
        (b'{"prompt": "a", "temperature": NaN}', "invalid_json"),
        (b'{"prompt": "a", "temperature": 1e999}', "invalid_value"),
        (b'{"prompt": "\xff"}', "invalid_encoding"),
        (b'{"a":' * 100_000, "invalid_json"),
        (b'{"prompt": ' + b"9" * 5000 + b"}", "invalid_json"),
    ],
)
@pytest.mark.case("I13")
async def test_a_malformed_body_is_the_clients_fault(here: Place, body: bytes, code: str) -> None:
    answer = await here.client.post("/v1/completions", content=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == code


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    body=st.binary(max_size=60)
    | st.text(max_size=30).map(lambda text: json.dumps({"model": text, "prompt": "a"}).encode())
)
@pytest.mark.case("I7")
async def test_whatever_bytes_come_the_error_is_json(body: bytes, folder: Path) -> None:
    async with place(folder, loaded=False) as one:
        answer = await one.client.post("/v1/completions", content=body)
        assert answer.status_code in (400, 404, 503)
        assert answer.json()["error"]["message"]


@pytest.mark.case("I35")
async def test_half_a_surrogate_pair_is_named_with_its_place(here: Place) -> None:
    answer = await here.client.post("/v1/completions", content=b'{"prompt": "ab\\ud800"}')
    assert "prompt: character 2" in check_error(answer, 400, "invalid_unicode", "prompt")
    chat = b'{"messages": [{"role": "user", "content": "\\udc00"}]}'
    answer = await here.client.post("/v1/chat/completions", content=chat)
    check_error(answer, 400, "invalid_unicode", "messages[0].content")


async def test_a_body_that_is_too_large_is_refused_with_and_without_its_length(here: Place) -> None:
    large = b'{"prompt": "' + b"a" * MAX_BYTES + b'"}'
    answer = await here.client.post("/v1/completions", content=large)
    check_error(answer, 413, "body_too_large")
    assert answer.headers["connection"] == "close"

    async def chunks() -> AsyncIterator[bytes]:
        for start in range(0, len(large), 65536):
            yield large[start : start + 65536]

    check_error(await here.client.post("/v1/completions", content=chunks()), 413, "body_too_large")


@pytest.mark.case("I37")
async def test_too_many_headers_are_refused(here: Place) -> None:
    answer = await here.client.get("/v1/models", headers={f"x-{place}": "a" for place in range(120)})
    check_error(answer, 431, "too_many_headers")


async def test_without_a_model_the_answer_is_loading(folder: Path) -> None:
    async with place(folder, loaded=False) as one:
        answer = await one.complete(prompt="a")
        check_error(answer, 503, "loading")
        assert int(answer.headers["retry-after"]) >= 1
        check_error(await one.client.get("/readyz"), 503, "loading")
        assert (await one.client.get("/healthz")).status_code == 200


async def test_more_than_the_queue_holds_is_told_to_come_back(folder: Path) -> None:
    """A burst of ten times what fits: every answer is 200 or a 503 that says when, and the engine lives on."""
    async with place(folder, max_sequences=2, queue_length=2) as one:
        answers = await asyncio.gather(*(one.complete(prompt="a", max_tokens=20) for _ in range(40)))
        full = [answer for answer in answers if answer.status_code != 200]
        assert 0 < len(full) < 40
        for answer in full:
            check_error(answer, 503, "queue_full")
            assert int(answer.headers["retry-after"]) >= 1
        await one.quiet()
        assert (await one.complete(prompt="a", max_tokens=1)).status_code == 200
        assert one.value("backstay_requests_finished_total", outcome="rejected") == len(full)


async def test_a_request_of_more_sequences_than_fit_is_taken_whole_or_not_at_all(folder: Path) -> None:
    async with place(folder, max_sequences=2, queue_length=2) as one:
        check_error(await one.complete(prompt=["a"] * 5, max_tokens=1), 503, "queue_full")
        assert (await one.complete(prompt=["a"] * 4, max_tokens=1)).status_code == 200


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.case("I45")
async def test_a_deadline_is_an_error_and_not_a_short_answer(folder: Path, stream: bool) -> None:
    async with place(folder, max_sequences=1) as one:
        before = asyncio.ensure_future(one.complete(prompt="a", max_tokens=120))
        await asyncio.sleep(0.01)
        answer = await one.complete(prompt="b", max_tokens=120, timeout=0.001, stream=stream)
        check_error(answer, 504, "deadline_exceeded")
        assert (await before).status_code == 200


def broken_folder(folder: Path) -> Path:
    """A model whose token 255 has no finite embedding."""
    config = {**tiny.CONFIG, "tie_word_embeddings": False}
    weights = tiny.tensors(config)
    weights["model.embed_tokens.weight"][255] = float("nan")
    return tiny.write(folder, weights, config)


@pytest.mark.parametrize("stream", [False, True])
async def test_numbers_that_are_not_finite_fail_their_own_request_only(tmp_path: Path, stream: bool) -> None:
    async with place(broken_folder(tmp_path)) as one:
        bad, good = await asyncio.gather(
            one.complete(prompt=[1, 255], max_tokens=3, stream=stream), one.complete(prompt=[1, 2], max_tokens=1)
        )
        check_error(bad, 500, "non_finite_logits")
        assert good.status_code == 200
        assert one.value("backstay_requests_finished_total", outcome="error") == 1


async def test_an_engine_that_fails_a_step_fails_its_requests_and_goes_on(folder: Path) -> None:
    engine = make_engine(folder, blocks=130)
    run, failures = engine._runner.run, [RuntimeError("a device error")]

    def failing(slices: Any) -> Any:
        if failures:
            raise failures.pop()
        return run(slices)

    engine._runner.run = failing  # type: ignore[method-assign]
    async with place(folder, engine=engine) as one:
        check_error(await one.complete(prompt="a", max_tokens=3), 500, "internal_error")
        assert (await one.complete(prompt="a", max_tokens=3)).status_code == 200
        await one.quiet()


async def test_an_engine_that_fails_every_step_is_dead_and_says_so(folder: Path) -> None:
    engine = make_engine(folder, blocks=130)

    def failing(slices: Any) -> Any:
        raise RuntimeError(f"a device error at {len(slices)} slices")

    engine._runner.run = failing  # type: ignore[method-assign]
    async with place(folder, engine=engine) as one:
        for _ in range(3):
            check_error(await one.complete(prompt="a"), 500, "internal_error")
        check_error(await one.complete(prompt="a"), 503, "engine_dead")
        check_error(await one.client.get("/healthz"), 503, "engine_dead")
        check_error(await one.client.get("/readyz"), 503, "not_ready")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.case("I23")
async def test_who_hangs_up_frees_the_cache_within_two_steps(folder: Path, stream: bool) -> None:
    async with place(folder) as one:
        steps = 0
        began = asyncio.Event()
        run, here = one.engine._runner.run, asyncio.get_running_loop()

        def counted(slices: Any) -> Any:
            nonlocal steps
            steps += 1
            here.call_soon_threadsafe(began.set)
            return run(slices)

        one.engine._runner.run = counted  # type: ignore[method-assign]
        body = {"prompt": "a", "max_tokens": 120, "temperature": 0, "ignore_eos": True, "stream": stream}
        connection = Connection(one.app, "/v1/completions", body)
        await began.wait()
        connection.hang_up()
        at = steps
        await one.quiet()
        assert one.engine.scheduler.pool.used == 0
        assert steps - at <= 4  # the event loop hears of it during a step, and one more may have begun
        await connection.task
        assert one.value("backstay_requests_finished_total", outcome="cancelled") == 1
        assert one.value("backstay_kv_blocks_used") == 0


@pytest.mark.case("I49")
async def test_of_a_burst_of_ten_times_what_fits_all_are_answered_or_told_to_come_back(
    folder: Path,
) -> None:
    async with place(folder, max_sequences=4, queue_length=4) as one:
        asked = {"prompt": "burst", "max_tokens": 8, "temperature": 0, "ignore_eos": True}
        answers = await asyncio.gather(*(one.complete(**asked) for _ in range(80)))
        good = [answer for answer in answers if answer.status_code == 200]
        refused = [answer for answer in answers if answer.status_code == 503]
        assert len(good) + len(refused) == 80
        assert len(good) >= 8
        assert {answer.json()["error"]["code"] for answer in refused} == {"queue_full"}
        assert all(int(answer.headers["retry-after"]) >= 1 for answer in refused)
        assert len({answer.json()["choices"][0]["text"] for answer in good}) == 1
        await one.quiet()
        assert (await one.complete(**asked)).status_code == 200


@pytest.mark.case("I25")
async def test_after_many_hang_ups_nothing_is_left(folder: Path) -> None:
    async with place(folder, max_sequences=4, queue_length=4000) as one:
        connections = []
        for number in range(1000):
            body = {
                "prompt": "ab",
                "max_tokens": 30,
                "ignore_eos": True,
                "stream": number % 2 == 0,
                "n": 1 + number % 2,
            }
            connections.append(Connection(one.app, "/v1/completions", body))
            if number % 3 == 0:
                await asyncio.sleep(0.001)
            if number >= 5:
                connections[number - 5].hang_up()
        for connection in connections:
            connection.hang_up()
        await asyncio.gather(*(connection.task for connection in connections))
        await one.quiet()
        assert one.service.loaded is not None
        loop = one.service.loaded.loop
        assert not loop._inside
        assert not loop._open
        assert not loop._arrived
        assert one.engine._sequences == {}
        assert one.engine.scheduler.pool.used == 0
        assert one.service.in_flight == 0
        assert (await one.complete(prompt="a", max_tokens=2)).status_code == 200


async def test_an_error_in_our_own_code_is_an_error_object_without_its_details(
    here: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("secret details")

    monkeypatch.setattr("backstay_runtime.api.ask.wishes", broken)
    here.client = type(here.client)(
        transport=type(here.client._transport)(app=here.app, raise_app_exceptions=False),  # type: ignore[call-arg]
        base_url="http://tiny",
    )
    answer = await here.complete(prompt="a")
    assert "secret" not in answer.text
    check_error(answer, 500, "internal_error")
    assert here.value("backstay_requests_finished_total", outcome="error") == 1
