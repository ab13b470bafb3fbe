"""How a request wants its tokens chosen. Pure."""

from dataclasses import dataclass

GREEDY_BELOW = 1e-5
"""Temperatures up to this one choose the likeliest token: dividing by less would overflow."""


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """Validated wishes; the defaults change nothing."""

    max_tokens: int
    temperature: float = 1.0
    top_k: int = 0
    """0: all tokens."""
    top_p: float = 1.0
    min_p: float = 0.0
    """Tokens less likely than this fraction of the likeliest are left out."""
    repetition_penalty: float = 1.0
    """Divides (or multiplies, below 0) the logits of tokens that occur in prompt or output."""
    presence_penalty: float = 0.0
    """Subtracted once from the logits of tokens that occur in the output."""
    frequency_penalty: float = 0.0
    """Subtracted for each occurrence in the output."""
    seed: int | str | None = None
    """With a seed, the same request alone or beside others draws the same numbers."""
    logprobs: int | None = None
    """Report the chosen token's log-probability and this many of the likeliest tokens'."""
    prompt_logprobs: bool = False
    """Report the same for each token of the prompt but the first."""
    ignore_eos: bool = False
    bias: tuple[tuple[int, float], ...] = ()
    """(token, what is added to its logit), after the penalties."""
    min_tokens: int = 0
    """End-of-text tokens are not chosen before this many tokens."""

    @property
    def greedy(self) -> bool:
        """Whether the likeliest token is chosen."""
        return self.temperature <= GREEDY_BELOW

    @property
    def plain(self) -> bool:
        """Whether the likeliest token of the model's own logits is chosen."""
        return self.greedy and not self.penalised and not self.bias

    @property
    def penalised(self) -> bool:
        """Whether logits depend on what was written before."""
        return self.repetition_penalty != 1.0 or self.presence_penalty != 0.0 or self.frequency_penalty != 0.0


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """Natural-logarithm probabilities at one position, of the model itself: before temperature and penalties."""

    token: int
    logprob: float
    top: tuple[tuple[int, float], ...]
    """(token, log-probability), likeliest first."""
