"""Iteration-level scheduling: before every step, which sequences compute which tokens. Pure."""

from dataclasses import dataclass, field

from backstay_runtime.kv import prefix
from backstay_runtime.kv.blocks import PROBE_BLOCK, BlockPool
from backstay_runtime.schedule.batching import Batching
from backstay_runtime.schedule.budget import TokenBudget
from backstay_runtime.schedule.sequence import Sequence
from backstay_runtime.schedule.waiting import Waiting, rank


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
    wait: float = 0.0
    """Seconds until there may be work, where there is none now although sequences wait."""


class Scheduler:
    """Decides; it computes nothing and knows no clock.

    Invariant: a sequence is in exactly one of waiting, running and probes, or not here.
    """

    def __init__(
        self, pool: BlockPool, *, max_sequences: int, step_tokens: int, batching: Batching = Batching.CONTINUOUS
    ) -> None:
        """`max_sequences` run at once, and at most `step_tokens` are computed in a step."""
        if step_tokens < max_sequences:
            raise ValueError(f"step_tokens {step_tokens} must be at least max_sequences {max_sequences}")
        self.pool = pool
        self.waiting = Waiting()
        self.running: list[Sequence] = []
        self.probes: list[Sequence] = []
        self._max_sequences = max_sequences
        self._step_tokens = step_tokens
        self._batching = batching
        self._joining = 0
        """Sequences that may still join the present batch."""
        self.prefix_tokens = 0
        """Prompt tokens that were looked for in the cache."""
        self.prefix_hits = 0
        """Those of them that were found."""

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
        self.waiting.add(sequence)

    def remove(self, sequence: Sequence) -> list[int]:
        """Takes a sequence out, wherever it is. Returns those of its blocks that are empty now."""
        for place in (self.probes, self.running):
            if sequence in place:
                place.remove(sequence)
        if sequence in self.waiting:
            self.waiting.remove(sequence)
        blocks = sequence.forget_computed()
        return blocks if sequence.probe else self.pool.give_back(blocks)

    def computed(self, chunk: Chunk) -> None:
        """The chunk's keys and values are in the cache, and finite: others may share the blocks it filled."""
        sequence, size = chunk.sequence, self.pool.block_size
        sequence.computed = chunk.end
        if sequence.root == prefix.NO_SHARING or chunk.end // size == chunk.start // size:
            return
        prefix.extend(sequence.keys, sequence.root, sequence.tokens, size)
        full = chunk.end // size
        self.pool.publish(sequence.keys[:full], sequence.tokens, sequence.blocks[:full])

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
        if not self.waiting:
            self._joining = 0
        elif not step.preempted:
            self._admit(now, budget, step)
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
            victim = max(self.running, key=rank)
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
        """The last in rank goes back to its place in the queue: the first always gets on, so all finish."""
        for chunk in step.chunks:
            if chunk.sequence is victim:
                step.chunks.remove(chunk)
                budget.return_(chunk.count)
                break
        self.remove(victim)
        self.waiting.add(victim)
        step.preempted += 1

    def _admit(self, now: float, budget: TokenBudget, step: Step) -> None:
        if not self._joining:
            waits = self._next_batch_in(now)
            if waits != 0.0:
                step.wait = waits or 0.0
                return
            self._joining = min(len(self.waiting), self._max_sequences)
        being_read = self._being_read()
        for sequence in list(self.waiting):
            if len(self.running) == self._max_sequences or not budget.left or not self._may_join:
                return
            found = self._find(sequence)
            if self._next_key(sequence, len(found)) in being_read:
                continue  # the same text is just being read for another: its blocks will be there soon
            if not self._start(sequence, found, budget, step):
                return
            being_read.update(self._unread(sequence))

    def _next_batch_in(self, now: float) -> float | None:
        return self._batching.joins_after(
            running=len(self.running),
            waiting=len(self.waiting),
            most=self._max_sequences,
            waited=now - min(sequence.arrival for sequence in self.waiting),
        )

    @property
    def _may_join(self) -> bool:
        return self._batching is Batching.CONTINUOUS or self._joining > 0

    def _find(self, sequence: Sequence) -> list[int]:
        """Blocks that hold the sequence's beginning. At least one token is left to be computed: it gives the logits."""
        if sequence.root == prefix.NO_SHARING:
            return []
        prefix.extend(sequence.keys, sequence.root, sequence.tokens, self.pool.block_size)
        if sequence.params.prompt_logprobs:
            return []  # every row of the prompt is needed
        most = (len(sequence.tokens) - 1) // self.pool.block_size
        return self.pool.find(sequence.keys[:most], sequence.tokens)

    def _start(self, sequence: Sequence, found: list[int], budget: TokenBudget, step: Step) -> bool:
        # The whole of it must fit, or it would soon be preempted by those it joins.
        lacking = self.pool.needed(len(sequence.tokens)) - len(found)
        if lacking + self.pool.fresh(found) > self.pool.free:
            return False
        self.pool.share(found)
        sequence.blocks = list(found)
        sequence.computed = start = len(found) * self.pool.block_size
        count = budget.grant(sequence.remaining)
        if not self._hold(sequence, start + count):
            raise RuntimeError("blocks that were free a moment ago are not")
        self.waiting.remove(sequence)
        self._joining = max(0, self._joining - 1)
        self.running.append(sequence)
        if sequence.root != prefix.NO_SHARING:
            self.prefix_tokens += len(sequence.tokens)
            self.prefix_hits += start
        if not sequence.started:
            sequence.started = True
            step.started.append(sequence)
        step.chunks.append(Chunk(sequence, start, count))
        return True

    def _being_read(self) -> set[bytes]:
        """Keys of the blocks that running sequences are about to fill from their prompts."""
        return {key for sequence in self.running if sequence.remaining > 1 for key in self._unread(sequence)}

    def _unread(self, sequence: Sequence) -> list[bytes]:
        return sequence.keys[sequence.computed // self.pool.block_size :]

    def _next_key(self, sequence: Sequence, found: int) -> bytes | None:
        """Key of the first block that was not found, where its text would be shared."""
        most = (len(sequence.tokens) - 1) // self.pool.block_size
        if sequence.params.prompt_logprobs or found >= min(most, len(sequence.keys)):
            return None
        return sequence.keys[found]
