"""Hot swaps between two tiny models in one process."""

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from backstay_contract.manifest import Architecture, Manifest, ModelFile
from backstay_contract.names import RuntimeMetric
from backstay_contract.termination import GaveUp
from backstay_runtime import assemble
from backstay_runtime.api.app import guarded
from backstay_runtime.api.control import create_control
from backstay_runtime.assemble import Model, Sizes
from backstay_runtime.folder import GiveUpError
from backstay_runtime.swap import Start, Swapper, Ways
from backstay_runtime.text.template import load_template
from backstay_runtime.text.tokenizer import Tokenizer
from prometheus_client.parser import text_string_to_metric_families

from . import tiny
from .machinery import alone, make_engine
from .serving import IDENTITY, MAX_MODEL_LEN, Place, place

NEXT = "sha256:" + "cd" * 32
TOKEN = "let me in"
PROMPT = [65, 66, 67, 68]


class Swapping:
    """A place, its control port, and the models that it may swap to."""

    def __init__(self, one: Place, folder: Path, free: int = 1 << 40) -> None:
        self.place = one
        self.folder = folder
        self.free = free
        self.engines: list[Any] = []
        self.fails: Exception | None = None
        file = ModelFile(path="config.json", size=2, sha256="sha256:" + "00" * 32)
        architecture = Architecture(family="llama")
        self.manifest = Manifest(name="tiny", version="2.0.0", files=(file,), architecture=architecture)
        ways = Ways(self.open, lambda _folder: (1 << 30, self.free), self.load, lambda _manifest: {})
        self.swaps = Swapper(one.service, ways, "0.0.1", release=0.05)
        control = guarded(
            create_control(one.service, hashlib.sha256(TOKEN.encode()).hexdigest(), self.swaps), one.service
        )
        self.control = httpx.AsyncClient(transport=httpx.ASGITransport(app=control), base_url="http://control")

    def open(self, digest: str) -> tuple[Path, Manifest]:
        if digest != NEXT:
            raise GiveUpError(GaveUp.MODEL_NOT_FOUND, f"{digest} is no folder")
        return self.folder, self.manifest

    def load(self, folder: Path, _manifest: Manifest, digest: str) -> Start:
        if self.fails is not None:
            raise self.fails
        engine = make_engine(folder, blocks=130)
        self.engines.append(engine)
        sizes = Sizes(MAX_MODEL_LEN, 8, 16, 130)
        model = Model(engine, sizes, Tokenizer(folder), load_template(folder), tiny.VOCABULARY)

        return lambda metrics: assemble.start(model, metrics)

    async def swap(self, digest: str = NEXT) -> httpx.Response:
        headers = {"authorization": f"Bearer {TOKEN}"}
        return await self.control.post("/control/swap", json={"digest": digest}, headers=headers)


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of other weights."""
    return tiny.write(tmp_path_factory.mktemp("models") / "other", tiny.tensors(seed=7))


@contextlib.asynccontextmanager
async def swapping(folder: Path, other: Path, free: int = 1 << 40) -> AsyncIterator[Swapping]:
    async with place(folder) as one:
        found = Swapping(one, other, free)
        yield found
        await found.swaps.wait()
        await found.control.aclose()


def expected(folder: Path, count: int) -> str:
    return Tokenizer(folder).decode(alone(folder, PROMPT)[:count])


async def until(condition: Callable[[], bool]) -> None:
    """Returns when the condition holds."""
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - what it looks at sets no event
            await asyncio.sleep(0.005)


async def text(one: Place, count: int = 12) -> tuple[str, str]:
    """An answer's text, and the digest that it names."""
    answer = await one.complete(prompt=PROMPT, max_tokens=count)
    assert answer.status_code == 200, answer.text
    return answer.json()["choices"][0]["text"], answer.headers["x-model-digest"]


async def test_after_a_swap_the_next_model_answers_under_its_own_digest(folder: Path, other: Path) -> None:
    async with swapping(folder, other) as one:
        assert await text(one.place) == (expected(folder, 12), IDENTITY.digest)
        assert (await one.swap()).status_code == 202
        await one.swaps.wait()
        assert await text(one.place) == (expected(other, 12), NEXT)
        ready = (await one.place.client.get("/readyz")).json()
        assert (ready["digest"], ready["version"]) == (NEXT, "2.0.0")
        assert one.swaps.state() == {"state": "done", "digest": NEXT, "problem": None}


async def test_under_load_no_request_is_lost_and_none_mixes_the_models(folder: Path, other: Path) -> None:
    wanted = {IDENTITY.digest: expected(folder, 12), NEXT: expected(other, 12)}
    async with swapping(folder, other) as one:
        answers: list[tuple[str, str]] = []

        async def client() -> None:
            for _ in range(12):
                answers.append(await text(one.place))  # noqa: PERF401 - others look at it meanwhile

        clients = [asyncio.ensure_future(client()) for _ in range(4)]
        await until(lambda: len(answers) >= 6)
        await one.swap()
        await asyncio.gather(*clients)
    assert len(answers) == 48
    assert {digest for _, digest in answers} == set(wanted)
    assert all(found == wanted[digest] for found, digest in answers)


async def test_the_old_model_finishes_what_it_began_and_then_leaves(folder: Path, other: Path) -> None:
    async with swapping(folder, other) as one:
        long = asyncio.ensure_future(text(one.place, 100))
        await until(lambda: one.place.engine.batch > 0)
        old, closed = one.place.service.loaded, []
        assert old is not None
        one.place.service.loaded = old = replace(old, close=lambda: closed.append(True))
        await one.swap()
        await one.swaps.wait()
        assert (await long)[1] == IDENTITY.digest
        assert one.place.service.retiring == []
        assert not old.loop._thread.is_alive()
        assert closed == [True]


async def test_without_room_nothing_is_changed(folder: Path, other: Path) -> None:
    async with swapping(folder, other, free=1 << 20) as one:
        await one.swap()
        await one.swaps.wait()
        state = one.swaps.state()
        assert state["state"] == "failed"
        assert "needs 1024 MiB beside the present one, and 1 MiB are free" in state["problem"]
        assert await text(one.place) == (expected(folder, 12), IDENTITY.digest)
        assert not one.engines


@pytest.mark.parametrize(
    "why", [GiveUpError(GaveUp.DIGEST_MISMATCH, "model.safetensors has SHA-256 …"), RuntimeError("secret")]
)
async def test_a_model_that_cannot_be_loaded_changes_nothing(folder: Path, other: Path, why: Exception) -> None:
    async with swapping(folder, other) as one:
        one.fails = why
        await one.swap()
        await one.swaps.wait()
        assert one.swaps.state()["state"] == "failed"
        assert "secret" not in str(one.swaps.state()["problem"])
        assert (await text(one.place))[1] == IDENTITY.digest
        one.fails = None
        assert (await one.swap()).status_code == 202
        await one.swaps.wait()
        assert (await text(one.place))[1] == NEXT


async def test_a_digest_whose_folder_is_not_there_changes_nothing(folder: Path, other: Path) -> None:
    async with swapping(folder, other) as one:
        await one.swap("sha256:" + "ef" * 32)
        await one.swaps.wait()
        assert "is no folder" in str(one.swaps.state()["problem"])
        assert (await text(one.place))[1] == IDENTITY.digest


async def test_a_swap_needs_the_token_a_digest_and_another_model(folder: Path, other: Path) -> None:
    async with swapping(folder, other) as one:
        assert (await one.control.post("/control/swap", json={"digest": NEXT})).status_code == 401
        assert (await one.swap("sha256:abc")).status_code == 400
        assert (await one.swap(IDENTITY.digest)).json()["error"]["code"] == "same_digest"
        assert (await text(one.place))[1] == IDENTITY.digest


async def test_one_swap_at_a_time(folder: Path, other: Path) -> None:
    async with swapping(folder, other) as one:
        assert (await one.swap()).status_code == 202
        assert (await one.swap()).json()["error"]["code"] == "swapping"


async def test_an_ending_process_swaps_no_more(folder: Path, other: Path) -> None:
    async with swapping(folder, other) as one:
        one.place.service.terminate()
        assert (await one.swap()).json()["error"]["code"] == "not_swappable"


async def test_each_models_requests_are_counted_under_its_own_digest(folder: Path, other: Path) -> None:
    async with swapping(folder, other) as one:
        await text(one.place)
        await one.swap()
        await until(lambda: one.place.service.identity.digest == NEXT)
        during = (await one.place.client.get("/metrics")).text
        await one.swaps.wait()
        await text(one.place)
        after = (await one.place.client.get("/metrics")).text
    assert counted(during) == {IDENTITY.digest: 1.0, NEXT: 0.0}
    assert counted(after) == {NEXT: 1.0}


def counted(exposition: str) -> dict[str, float]:
    """Finished requests that were answered, by digest; the text is parsed as Prometheus does."""
    name = RuntimeMetric.FINISHED
    return {
        sample.labels["digest"]: sample.value
        for family in text_string_to_metric_families(exposition)
        for sample in family.samples
        if sample.name == name and sample.labels["outcome"] == "ok"
    }
