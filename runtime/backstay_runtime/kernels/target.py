"""Which processor code is made for: a level that many share, so that what one machine compiled runs on another."""

from collections.abc import Collection
from typing import NamedTuple

_LEVEL_2 = frozenset({"cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3"})
_LEVEL_3 = _LEVEL_2 | {"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave"}
_LEVEL_4 = _LEVEL_3 | {"avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl"}


class Target(NamedTuple):
    """A processor as LLVM names it."""

    name: str
    features: str
    """Beside those of the name. Never left out: numba would add those of the machine that compiles."""
    needed: frozenset[str]
    """What a processor must have for code of this target."""


# LLVM takes the upper half of AVX-512's registers for slow, as on the first processors that had them; without it a step
# takes a fifth to a third longer on one of today.
TARGETS = (
    Target("x86-64-v4", "-prefer-256-bit", _LEVEL_4),
    Target("x86-64-v3", "", _LEVEL_3),
)
"""The levels of x86-64 with vectors of 512 and of 256 bits, best first. Source: the x86-64 psABI."""


def best(features: Collection[str]) -> Target | None:
    """The best target for a processor with these features, or None where it has to be compiled for itself."""
    return next((target for target in TARGETS if target.needed <= frozenset(features)), None)
