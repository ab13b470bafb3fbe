"""A real serving process and the operator's own way of asking it: the same texts, the same losses, the same verdict."""

import asyncio
import hashlib
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from backstay_contract import manifest as manifests
from backstay_contract.evidence import MetricVerdict, VerdictKind
from backstay_contract.manifest import Architecture, EvaluationItem, Manifest, ModelFile
from backstay_contract.metric import PERPLEXITY_TOLERANCE, MetricName
from backstay_contract.rollout import MetricsSource
from backstay_contract.status import Colour
from backstay_judge import Settings, judge, judge_rounds, round_of
from backstay_operator.evidence import look
from backstay_operator.http import Http
from backstay_operator.observe import control
from backstay_operator.rollout import judging
from backstay_operator.rollout.observation import ColourState, Look, Pod

from tests.unit.runtime import tiny

TEXTS = (
    "The capital of France is Paris.",
    "A rope holds the mast.",
    "Ein Satz mit Umlauten: äöü.",
    "Numbers: 1, 2, 3, 4.",
)
TOKEN = "only the operator knows it"
ADDRESS = "127.0.0.77"
PATIENCE_SECONDS = 120


def loss(text: str) -> EvaluationItem:
    """The text with the loss that the tiny model has on it, in float64 and without the runtime."""
    import numpy as np

    tokens = list(text.encode())
    logits = tiny.reference_logits(tokens, tiny.tensors())[:-1]
    total = np.log(np.exp(logits - logits.max(-1, keepdims=True)).sum(-1)) + logits.max(-1)
    nll = float((total - logits[np.arange(len(tokens) - 1), tokens[1:]]).sum())
    return EvaluationItem(text=text, nll=nll, tokens=len(tokens) - 1)


def better(item: EvaluationItem) -> EvaluationItem:
    """As if a model of half the perplexity had been recorded."""
    return item.with_(nll=item.nll - item.tokens * math.log(2))


class Served:
    """A serving process with an evaluation set of these items, and what the operator finds there."""

    def __init__(self, folder: Path, items: tuple[EvaluationItem, ...]) -> None:
        tiny.write(folder)
        files = tuple(
            ModelFile(path=path.name, size=path.stat().st_size, sha256=manifests.digest_of(path.read_bytes()))
            for path in sorted(folder.iterdir())
        )
        manifest = Manifest(
            name="tiny", version="1", files=files, architecture=Architecture(family="llama"), evaluation=items
        )
        data = manifests.dump(manifest)
        (folder / "manifest.json").write_bytes(data)
        self.digest = manifests.digest_of(data)
        environment = {
            "BACKSTAY_HOST": ADDRESS,
            "BACKSTAY_MODEL_DIGEST": self.digest,
            "BACKSTAY_CONTROL_TOKEN_SHA256": hashlib.sha256(TOKEN.encode()).hexdigest(),
            "BACKSTAY_TERMINATION_LOG": os.devnull,
            "BACKSTAY_MAX_MODEL_LEN": "128",
        }
        self.process = subprocess.Popen(
            [sys.executable, "-m", "backstay_runtime", "serve", "--model", str(folder)],
            env={**os.environ, **environment},
            stdout=subprocess.DEVNULL,
        )
        self.pod = Pod("tiny-1", "rev", "rev-1", ready=True, ip=ADDRESS)

    def before_the_flip(self) -> tuple[MetricVerdict, float]:
        """By the losses that the control port tells; and the limit that it tells."""
        return asyncio.run(self._asked())

    async def _asked(self) -> tuple[MetricVerdict, float]:
        http, until = Http(), time.monotonic() + PATIENCE_SECONDS
        try:
            while time.monotonic() < until and self.process.poll() is None:
                said = await control.ask(http, TOKEN, [self.pod])
                told = await control.evaluations(http, TOKEN, [self.pod], said)
                if told and (told[self.pod.name].found or told[self.pod.name].problem):
                    limit = said[self.pod.name].limits[MetricName.PERPLEXITY]
                    rounds = {self.pod.name: round_of(told[self.pod.name].found)}
                    now = datetime.now(UTC)
                    ready = frozenset((self.pod.name,))
                    return judge_rounds(rounds, ready, limit=limit, now=now, settings=Settings()), limit
                await asyncio.sleep(0.1)
        finally:
            await http.close()
        raise AssertionError(f"no round within {PATIENCE_SECONDS} s; exit code {self.process.poll()}")

    def after_the_flip(self, limit: float) -> MetricVerdict:
        """By the round that its metrics tell."""
        seen = asyncio.run(self._looked())
        now = datetime.now(UTC)
        state = ColourState(
            Colour.GREEN, exists=True, attempt="rev-1", digest=self.digest, replicas=1, pods=(self.pod,)
        )
        limits = {MetricName.PERPLEXITY: limit}
        coverage = judging.read(seen, state, "rev-1", self.digest, limits, now)
        (verdict,) = judge(limits, (), coverage, now, Settings()).metrics
        return verdict

    async def _looked(self) -> Look:
        http = Http()
        try:
            return await look.look(http, MetricsSource.PODS, None, "default", [self.pod], time.time)
        finally:
            await http.close()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Callable[[tuple[EvaluationItem, ...]], Served]]:
    begun: list[Served] = []

    def serve(items: tuple[EvaluationItem, ...]) -> Served:
        begun.append(Served(tmp_path / "tiny", items))
        return begun[-1]

    yield serve
    for one in begun:
        one.process.terminate()
        one.process.wait(30)


def test_a_model_that_is_what_was_recorded_passes_before_the_flip_and_after_it(
    served: Callable[[tuple[EvaluationItem, ...]], Served],
) -> None:
    items = tuple(loss(text) for text in TEXTS)
    recorded = math.exp(sum(item.nll for item in items) / sum(item.tokens for item in items))
    here = served(items)
    before, limit = here.before_the_flip()
    after = here.after_the_flip(limit)
    assert limit == pytest.approx(recorded * PERPLEXITY_TOLERANCE)
    for found in (before, after):
        assert (found.verdict, found.n, found.k) == (VerdictKind.PASS, len(TEXTS), 0)
        assert found.estimate == pytest.approx(recorded, rel=1e-4)


def test_a_model_of_twice_the_recorded_perplexity_breaches_before_the_flip_and_after_it(
    served: Callable[[tuple[EvaluationItem, ...]], Served],
) -> None:
    here = served(tuple(better(loss(text)) for text in TEXTS))
    before, limit = here.before_the_flip()
    after = here.after_the_flip(limit)
    assert [found.verdict for found in (before, after)] == [VerdictKind.BREACH] * 2
    assert before.estimate == pytest.approx(after.estimate)
    assert json.loads(json.dumps(before.to_json()))["estimate"] > 1.9 * limit / PERPLEXITY_TOLERANCE
