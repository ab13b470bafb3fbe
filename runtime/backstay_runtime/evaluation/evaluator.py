"""Computes the evaluation set in small chunks, on the engine's thread and in blocks of its own."""

import logging
import math
import time
from collections.abc import Callable, Sequence

import torch
from backstay_judge import EvaluatedItem, round_of

from backstay_runtime.batch import Slice
from backstay_runtime.evaluation.pacing import Pacing
from backstay_runtime.evaluation.texts import Text
from backstay_runtime.runner import Runner
from backstay_runtime.sampling import sampler
from backstay_runtime.telemetry.evaluation import EvaluationState

_log = logging.getLogger(__name__)


class Evaluator:
    """Called by one thread only; what it tells is a value that is replaced as a whole."""

    def __init__(
        self,
        runner: Runner,
        texts: Sequence[Text],
        blocks: Sequence[int],
        *,
        problem: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`blocks` hold the longest text and are nobody else's; `problem` says why the texts cannot be computed."""
        self._runner = runner
        self._texts = texts
        self._blocks = list(blocks)
        self._clock = clock
        self._pacing = Pacing()
        self._nll = 0.0
        self._computed = 0
        self._found: list[EvaluatedItem] = []
        self.state = EvaluationState(items=len(texts), problem=problem)
        """Of the last whole round, with the present one's progress. Read by any thread."""

    def pause(self, now: float, *, idle: bool) -> float | None:
        """Seconds until it may work again; None: there is nothing to do."""
        return self._pacing.pause(now, idle=idle) if self._texts and not self.state.problem else None

    def work(self) -> None:
        """One chunk."""
        began = self._clock()
        try:
            self._advance()
        except Exception as why:  # users are served all the same
            _log.exception("the evaluation set cannot be computed")
            self._become(problem=f"the evaluation set cannot be computed: {type(why).__name__}: {why}"[:300])
        ended = self._clock()
        self._pacing.spent(began, ended)
        self._become(seconds=self.state.seconds + ended - began)
        if len(self._found) == len(self._texts):
            self._end_round(ended)

    @torch.inference_mode()
    def _advance(self) -> None:
        """Position p predicts token p + 1, so the last token is never read."""
        text = self._texts[len(self._found)]
        start, end = self._computed, min(self._computed + self._pacing.chunk, len(text.tokens) - 1)
        hidden, _ = self._runner.run([Slice(0, text.tokens[start:end], start, self._blocks)])
        logits = self._runner.logits(hidden, range(end - start))
        told = sampler.token_logprobs(logits, text.tokens[start + 1 : end + 1], 0)
        self._nll -= math.fsum(one.logprob for one in told)
        self._computed = end
        if end == len(text.tokens) - 1 or not math.isfinite(self._nll):
            self._end_text(text)

    def _end_text(self, text: Text) -> None:
        if not math.isfinite(self._nll):
            # A masked position still takes part in the product: the next text must not find these numbers.
            self._runner.clear(self._blocks)
        self._found.append(EvaluatedItem(text.recorded_nll, self._nll, len(text.tokens) - 1))
        self._nll, self._computed = 0.0, 0
        self._become(done=len(self._found))

    def _end_round(self, ended: float) -> None:
        found, self._found = tuple(self._found), []
        self._pacing.round_over(ended)
        whole = [item for item in found if math.isfinite(item.nll)]
        self._become(
            done=0,
            rounds=self.state.rounds + 1,
            nll=self.state.nll + math.fsum(item.nll for item in whole),
            tokens=self.state.tokens + sum(item.tokens for item in whole),
            found=found,
            last=round_of(found),
        )

    def _become(self, **changes: object) -> None:
        self.state = self.state.with_(**changes)
