"""The engine: sequences of token ids in, tokens out, one step at a time. It knows no text, thread or clock."""

import random
from collections.abc import Sequence as Many
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import torch

from backstay_runtime.batch import Slice
from backstay_runtime.kv import prefix
from backstay_runtime.sampling import sampler
from backstay_runtime.sampling.params import SamplingParams, TokenLogprob
from backstay_runtime.schedule.priority import Priority
from backstay_runtime.schedule.scheduler import Chunk, Scheduler
from backstay_runtime.schedule.sequence import Sequence


class Finish(StrEnum):
    """Why a sequence ended."""

    STOP = "stop"
    LENGTH = "length"
    NON_FINITE = "non_finite_logits"
    DEADLINE = "deadline_exceeded"
    ERROR = "internal_error"
    RULE = "content_filter"
    """An output rule ended it: what is wrong was left out."""
    REFUSED = "output_refused"
    """An output rule refused it."""
    CUT = "draining"
    """The process ends before the sequence does."""


@dataclass(frozen=True, slots=True)
class Output:
    """What one step did for one sequence."""

    number: int
    token: int | None = None
    logprob: TokenLogprob | None = None
    prompt_logprobs: tuple[TokenLogprob, ...] | None = None
    """With the first token, where they were asked for: for prompt tokens 1 … n - 1."""
    finish: Finish | None = None
    started: bool = False
    """It waited until this step; such an output says nothing else."""


class Runs(Protocol):
    """What the engine needs of a runner."""

    def run(self, slices: Many[Slice]) -> tuple[torch.Tensor, dict[int, int]]: ...
    def logits(self, hidden: torch.Tensor, rows: Many[int]) -> torch.Tensor: ...
    def clear(self, blocks: list[int]) -> None: ...


class Engine:
    """Owns the sequences. Not thread-safe: one thread calls it."""

    def __init__(self, runner: Runs, scheduler: Scheduler, eos: frozenset[int], model: str = "") -> None:
        """`model` is the model's digest: blocks of one model are never found by another's requests."""
        self.scheduler = scheduler
        self._model = model
        self._runner = runner
        self._eos = eos
        self._sequences: dict[int, Sequence] = {}
        self._draws: dict[int, random.Random] = {}
        self._next = 0
        self.preemptions = 0
        self.batch = 0
        """Sequences in the last step, probes apart."""
        self.wait = 0.0
        """Seconds until the next step is worth while, where sequences wait and the last one computed nothing."""

    @property
    def eos(self) -> frozenset[int]:
        """Tokens that end a text."""
        return self._eos

    @property
    def idle(self) -> bool:
        """Whether a step would do nothing."""
        return self.scheduler.idle

    def add(
        self,
        prompt: Many[int],
        params: SamplingParams,
        *,
        arrival: float,
        deadline: float | None = None,
        probe: bool = False,
        priority: Priority = Priority.NORMAL,
        salt: str = "",
    ) -> int:
        """Takes a prompt and returns the number under which its outputs come.

        Prompts with equal beginnings share their blocks if their salts are equal too.
        Raises ValueError for a prompt that is empty or can never run.
        """
        if not prompt:
            raise ValueError("a prompt of 0 tokens cannot be continued")
        number, self._next = self._next, self._next + 1
        sequence = Sequence(number, list(prompt), len(prompt), params, arrival, deadline, probe, priority=priority)
        sequence.root = prefix.NO_SHARING if probe else prefix.root(self._model, salt)
        self.scheduler.add(sequence)
        self._sequences[number] = sequence
        self._draws[number] = random.Random(params.seed)  # noqa: S311 - samples texts, guards nothing
        return number

    def abort(self, number: int) -> None:
        """Ends a sequence without an output; its blocks are free at once. Nothing happens if it has ended."""
        sequence = self._sequences.get(number)
        if sequence is not None:
            self._leave(sequence)

    def abort_all(self) -> list[int]:
        """Ends every sequence and returns their numbers."""
        numbers = list(self._sequences)
        for number in numbers:
            self.abort(number)
        return numbers

    def shed_newest(self) -> Output | None:
        """Ends the youngest sequence, to free memory for the others; None when there is none."""
        if not self._sequences:
            return None
        return self._end(self._sequences[max(self._sequences)], Finish.ERROR)

    @torch.inference_mode()
    def step(self, now: float) -> list[Output]:
        """Schedules, computes and samples once."""
        step = self.scheduler.schedule(now)
        self.preemptions += step.preempted
        self.wait = 0.0 if step.chunks else step.wait
        self.batch = sum(not chunk.sequence.probe for chunk in step.chunks)
        outputs = [self._end(sequence, Finish.DEADLINE) for sequence in step.expired]
        outputs += [Output(number=sequence.number, started=True) for sequence in step.started]
        if not step.chunks:
            return outputs
        hidden, first_row = self._runner.run([_slice(chunk) for chunk in step.chunks])
        broken = _broken(step.chunks, hidden, first_row)
        outputs += [self._end(chunk.sequence, Finish.NON_FINITE) for chunk in broken]
        whole = [chunk for chunk in step.chunks if chunk not in broken]
        for chunk in whole:
            self.scheduler.computed(chunk)
            if chunk.sequence.params.prompt_logprobs:
                self._read_prompt(chunk, hidden, first_row[chunk.sequence.number])
        return outputs + self._sample([chunk for chunk in whole if chunk.samples], hidden, first_row)

    def _read_prompt(self, chunk: Chunk, hidden: torch.Tensor, first_row: int) -> None:
        """Adds what the chunk says about the prompt's own tokens: position p predicts token p + 1."""
        sequence = chunk.sequence
        # After a preemption, what is known already is not asked for again.
        start = max(chunk.start, len(sequence.prompt_logprobs))
        end = min(chunk.end, sequence.prompt_length - 1)
        for at in range(start, end, sampler.LOGPROB_ROWS):
            until = min(at + sampler.LOGPROB_ROWS, end)
            offset = first_row - chunk.start
            logits = self._runner.logits(hidden, range(at + offset, until + offset))
            top = sequence.params.logprobs or 0
            sequence.prompt_logprobs += sampler.token_logprobs(logits, sequence.tokens[at + 1 : until + 1], top)

    def _sample(self, chunks: list[Chunk], hidden: torch.Tensor, first_row: dict[int, int]) -> list[Output]:
        if not chunks:
            return []
        rows = [first_row[chunk.sequence.number] + chunk.count - 1 for chunk in chunks]
        logits = self._runner.logits(hidden, rows)
        picked = sampler.pick(logits, [self._row(chunk.sequence) for chunk in chunks])
        return [self._advance(chunk.sequence, one) for chunk, one in zip(chunks, picked, strict=True)]

    def _row(self, sequence: Sequence) -> sampler.Row:
        params = sequence.params
        early = len(sequence.tokens) - sequence.prompt_length < params.min_tokens
        # A number is drawn for every token, needed or not: the draws then depend on nothing but the seed.
        uniform = self._draws[sequence.number].random()
        penalised = params.penalised
        return sampler.Row(
            params=params,
            prompt=sequence.prompt if penalised else (),
            output=sequence.output if penalised else (),
            uniform=uniform,
            forbidden=self._eos if early else frozenset(),
        )

    def _advance(self, sequence: Sequence, picked: sampler.Picked) -> Output:
        if not picked.finite:
            return self._end(sequence, Finish.NON_FINITE)
        first = len(sequence.tokens) == sequence.prompt_length
        sequence.tokens.append(picked.token)
        finish = self._finish(sequence, picked.token)
        if finish is not None:
            self._leave(sequence)
        asked = first and sequence.params.prompt_logprobs
        return Output(
            number=sequence.number,
            token=picked.token,
            logprob=picked.logprob,
            prompt_logprobs=tuple(sequence.prompt_logprobs) if asked else None,
            finish=finish,
        )

    def _finish(self, sequence: Sequence, token: int) -> Finish | None:
        if token in self._eos and not sequence.params.ignore_eos:
            return Finish.STOP
        if len(sequence.tokens) - sequence.prompt_length >= sequence.params.max_tokens:
            return Finish.LENGTH
        return None

    def _end(self, sequence: Sequence, finish: Finish) -> Output:
        blocks = self._leave(sequence)
        if finish is Finish.NON_FINITE:
            self._runner.clear(blocks)
        return Output(number=sequence.number, finish=finish)

    def _leave(self, sequence: Sequence) -> list[int]:
        del self._sequences[sequence.number]
        del self._draws[sequence.number]
        return self.scheduler.remove(sequence)


def _slice(chunk: Chunk) -> Slice:
    sequence = chunk.sequence
    return Slice(sequence.number, sequence.tokens[chunk.start : chunk.end], chunk.start, sequence.blocks)


def _broken(chunks: Many[Chunk], hidden: torch.Tensor, first_row: dict[int, int]) -> list[Chunk]:
    """The chunks with a number that is not finite.

    A key or value that is not finite makes its own row's hidden state so too: after this check, none is left
    in blocks that another sequence may get.
    """
    if bool(hidden.isfinite().all()):
        return []
    finite = torch.isfinite(hidden).all(dim=-1).tolist()
    return [chunk for chunk in chunks if not all(finite[(row := first_row[chunk.sequence.number]) : row + chunk.count])]
