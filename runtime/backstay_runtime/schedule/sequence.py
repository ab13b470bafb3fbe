"""A sequence on its way through the engine. Pure."""

from dataclasses import dataclass, field

from backstay_runtime.kv.prefix import NO_SHARING
from backstay_runtime.sampling.params import SamplingParams, TokenLogprob
from backstay_runtime.schedule.priority import Priority


@dataclass(slots=True, eq=False)
class Sequence:
    """Prompt and output of one choice of one request.

    Invariants: 0 <= computed < len(tokens); blocks hold at least `computed` tokens; keys and values of
    tokens[:computed] are in the cache.
    """

    number: int
    """Counts up over all sequences: the younger one has the larger number."""
    tokens: list[int]
    """Prompt, then output."""
    prompt_length: int
    params: SamplingParams
    arrival: float
    """Seconds on the engine's clock."""
    deadline: float | None = None
    """Counted from arrival, on the same clock."""
    probe: bool = False
    """A readiness probe: outside queue and limits, in a block of its own."""
    computed: int = 0
    blocks: list[int] = field(default_factory=list)
    prompt_logprobs: list[TokenLogprob] = field(default_factory=list)
    """For prompt tokens 1 … so far; kept when the sequence is computed again."""
    started: bool = False
    """Whether it has ever been given a step."""
    priority: Priority = Priority.NORMAL
    root: bytes = NO_SHARING
    """Where its blocks' keys begin: see kv.prefix."""
    keys: list[bytes] = field(default_factory=list)
    """Of the blocks that its tokens fill."""

    @property
    def prompt(self) -> list[int]:
        """The prompt's tokens."""
        return self.tokens[: self.prompt_length]

    @property
    def output(self) -> list[int]:
        """The tokens generated so far."""
        return self.tokens[self.prompt_length :]

    @property
    def remaining(self) -> int:
        """Tokens whose keys and values are not in the cache: 1 while it decodes, more while its prompt is read."""
        return len(self.tokens) - self.computed

    def expired(self, now: float) -> bool:
        """Whether its deadline has passed."""
        return self.deadline is not None and now >= self.deadline

    def forget_computed(self) -> list[int]:
        """Gives up its blocks; everything is computed again when it next runs."""
        blocks, self.blocks, self.computed = self.blocks, [], 0
        return blocks
