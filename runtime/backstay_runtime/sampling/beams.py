"""Beam search over tables of likeliest tokens: which beams go on, and which have ended. Pure.

A beam's score is the sum of its tokens' log-probabilities divided by length ** penalty, as usual since Wu et al. 2016
(arXiv 1609.08144, without its constant): a penalty of 0 prefers short texts, 1 compares tokens on average.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Beam:
    """A text that is being tried."""

    tokens: tuple[int, ...] = ()
    logprob: float = 0.0
    """Sum over its tokens."""
    stopped: bool = False
    """Its last token is one that ends texts."""

    def score(self, penalty: float) -> float:
        """What beams are compared by."""
        return float(self.logprob / max(1, len(self.tokens)) ** penalty)


@dataclass(frozen=True, slots=True)
class Beams:
    """The state of a search."""

    live: tuple[Beam, ...] = (Beam(),)
    ended: tuple[Beam, ...] = ()
    """At most `width`, best first."""

    def grow(
        self,
        likeliest: Sequence[Sequence[tuple[int, float]]],
        *,
        width: int,
        eos: frozenset[int],
        penalty: float,
    ) -> "Beams":
        """One token more. `likeliest`: for each live beam (token, log-probability), width + len(eos) or more."""
        grown = [
            Beam((*beam.tokens, token), beam.logprob + logprob, token in eos)
            for beam, table in zip(self.live, likeliest, strict=True)
            for token, logprob in table
        ]
        grown.sort(key=lambda beam: -beam.logprob)
        live = [beam for beam in grown if not beam.stopped][:width]
        ended = [beam for beam in grown[:width] if beam.stopped]  # a less likely end is one that no beam would take
        kept = sorted((*self.ended, *ended), key=lambda beam: -beam.score(penalty))[:width]
        return Beams(tuple(live), tuple(kept))

    def over(self, *, width: int, longest: int) -> bool:
        """Whether the search has ended: enough texts have, or none may grow."""
        return len(self.ended) >= width or not self.live or len(self.live[0].tokens) >= longest

    def best(self, count: int, penalty: float, longest: int) -> list[Beam]:
        """The best texts that have ended or are as long as may be; others only where there are not enough of them."""
        whole = [*self.ended, *(beam for beam in self.live if len(beam.tokens) >= longest)]
        whole.sort(key=lambda beam: -beam.score(penalty))
        others = [beam for beam in self.live if len(beam.tokens) < longest]
        return [*whole, *others][:count]
