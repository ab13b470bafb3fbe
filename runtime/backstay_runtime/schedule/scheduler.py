"""Iteration-level scheduling: before every step, which sequences compute which tokens. Pure."""

from collections import deque
from dataclasses import dataclass, field

from backstay_runtime.kv.blocks import PROBE_BLOCK, BlockPool
from backstay_runtime.schedule.budget import TokenBudget
from backstay_runtime.schedule.sequence import Sequence


@dataclass(frozen=True, slots=True)
class Chunk:
    """tokens[start : start + count] of a sequence, computed in this step."""

    sequence: Sequence
    start: int
    count: int

    @property
    def end(self) -> int:
        """One past the last token computed."""
        return self.start + self.count

    @property
    def samples(self) -> bool:
        """Whether the last row's logits become the sequence's next token."""
        return self.end == len(self.sequence.tokens)


@dataclass(slots=True)
class Step:
    """One step's work."""

    chunks: list[Chunk] = field(default_factory=list)
    expired: list[Sequence] = field(default_factory=list)
    """Sequences whose deadline has passed; they are out of the scheduler already."""
    preempted: int = 0
    started: list[Sequence] = field(default_factory=list)
    """Sequences that are given a step for the first time."""


class Scheduler:
    """Decides; it computes nothing and knows no clock.

    Invariant: a sequence is in exactly one of waiting, running and probes, or not here.
    """

    def __init__(self, pool: BlockPool, *, max_sequences: int, step_tokens: int) -> None:
        """`max_sequences` run at once, and at most `step_tokens` are computed in a step."""
        if step_tokens < max_sequences:
            raise ValueError(f"step_tokens {step_tokens} must be at least max_sequences {max_sequences}")
        self.pool = pool
        self.waiting: deque[Sequence] = deque()
        self.running: list[Sequence] = []
        self.probes: list[Sequence] = []
        self._max_sequences = max_sequences
        self._step_tokens = step_tokens

    @property
    def idle(self) -> bool:
        """Whether there is nothing to do."""
        return not (self.waiting or self.running or self.probes)

    def add(self, sequence: Sequence) -> None:
        """Queues a sequence. Raises ValueError when it could never run."""
        if sequence.probe:
            if len(sequence.tokens) >= self.pool.block_size:
                raise ValueError(f"a probe of {len(sequence.tokens)} tokens does not fit in one block")
            self.probes.append(sequence)
            return
        longest = sequence.prompt_length + sequence.params.max_tokens
        if self.pool.needed(longest) > self.pool.capacity:
            raise ValueError(f"a sequence of {longest} tokens does not fit in the whole cache")
        self.waiting.append(sequence)

    def remove(self, sequence: Sequence) -> list[int]:
        """Takes a sequence out, wherever it is, and frees its blocks, which are returned."""
        for place in (self.probes, self.running, self.waiting):
            if sequence in place:
                place.remove(sequence)
        blocks = sequence.forget_computed()
        if not sequence.probe:
            self.pool.give_back(blocks)
        return blocks

    def schedule(self, now: float) -> Step:
        """The next step. Sequences in it have blocks for every token that it computes."""
        step = Step()
        self._expire(now, step)
        budget = TokenBudget(self._step_tokens)
        self._schedule_probes(step)
        decoding = [sequence for sequence in self.running if sequence.remaining == 1]
        reading = [sequence for sequence in self.running if sequence.remaining > 1]
        for sequence in decoding + reading:
            if sequence in self.running:  # not preempted by an earlier one
                self._continue(sequence, budget, step)
        if not step.preempted:
            self._admit(budget, step)
        return step

    def _expire(self, now: float, step: Step) -> None:
        step.expired = [s for s in (*self.waiting, *self.running) if s.expired(now)]
        for sequence in step.expired:
            self.remove(sequence)

    def _schedule_probes(self, step: Step) -> None:
        # Probes share one block, so one runs at a time.
        if self.probes:
            probe = self.probes[0]
            probe.blocks = [PROBE_BLOCK]
            step.chunks.append(Chunk(probe, probe.computed, probe.remaining))

    def _continue(self, sequence: Sequence, budget: TokenBudget, step: Step) -> None:
        count = budget.grant(sequence.remaining)
        if count == 0:
            return
        while not self._hold(sequence, sequence.computed + count):
            victim = max(self.running, key=lambda one: one.number)
            self._preempt(victim, budget, step)
            if victim is sequence:
                budget.return_(count)
                return
        step.chunks.append(Chunk(sequence, sequence.computed, count))

    def _hold(self, sequence: Sequence, tokens: int) -> bool:
        lacking = self.pool.needed(tokens) - len(sequence.blocks)
        if lacking <= 0:
            return True
        taken = self.pool.take(lacking)
        if taken is None:
            return False
        sequence.blocks += taken
        return True

    def _preempt(self, victim: Sequence, budget: TokenBudget, step: Step) -> None:
        """The youngest goes back to the head of the queue: the oldest always gets on, so all finish."""
        for chunk in step.chunks:
            if chunk.sequence is victim:
                step.chunks.remove(chunk)
                budget.return_(chunk.count)
                break
        self.remove(victim)
        self.waiting.appendleft(victim)
        step.preempted += 1

    def _admit(self, budget: TokenBudget, step: Step) -> None:
        while self.waiting and len(self.running) < self._max_sequences and budget.left:
            sequence = self.waiting[0]
            # The whole of it must fit, or it would soon be preempted by those it joins.
            if self.pool.needed(len(sequence.tokens)) > self.pool.free:
                return
            count = budget.grant(sequence.remaining)
            if not self._hold(sequence, count):
                return
            self.waiting.popleft()
            self.running.append(sequence)
            if not sequence.started:
                sequence.started = True
                step.started.append(sequence)
            step.chunks.append(Chunk(sequence, 0, count))
