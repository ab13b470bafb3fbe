"""Which layers go to which device, by memory. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from backstay_runtime.model.errors import ModelError

MEMORY_FRACTION = 0.85
"""Of a device's free memory that weights and cache may take; the rest is for activations and the allocator."""


@dataclass(frozen=True, slots=True)
class Needs:
    """Bytes of each part of a decoder, its share of the cache included."""

    embedding: int
    """On the first device that is used."""
    layers: tuple[int, ...]
    head: int
    """Output head, on the last device that is used; 0 where it is the embedding, which is copied if it has to be."""

    @property
    def bytes(self) -> int:
        """Of all parts together."""
        return self.embedding + sum(self.layers) + self.head

    def with_cache(self, tokens: int, bytes_per_token: int) -> "Needs":
        """The same with room for so many tokens' keys and values, `bytes_per_token` over all layers."""
        share = tokens * bytes_per_token // len(self.layers)
        return replace(self, layers=tuple(layer + share for layer in self.layers))


def place(needs: Needs, free: Sequence[int]) -> list[range]:
    """The layers of each device that is used, in order: as few devices as can be, each filled before the next.

    So a token crosses from one device to the next as seldom as possible. `free` is in bytes, before MEMORY_FRACTION.
    Raises ModelError saying how much is missing.
    """
    room = [int(one * MEMORY_FRACTION) for one in free]
    for used in range(1, len(room) + 1):
        spans = _filled(needs if used == 1 else replace(needs, head=needs.head or needs.embedding), room[:used])
        if spans is not None:
            return spans
    raise ModelError(
        f"the model and its cache need {needs.bytes >> 20} MiB, and {len(room)} devices offer "
        f"{' + '.join(str(one >> 20) for one in room)} MiB ({MEMORY_FRACTION:.0%} of what is free): ask for more "
        "memory or devices, a lower maxModelLen, or quantization"
    )


def _filled(needs: Needs, room: list[int]) -> list[range] | None:
    """All layers on these devices; None where they do not fit."""
    room[0] -= needs.embedding
    room[-1] -= needs.head
    if min(room) < 0:
        return None
    spans, start = [], 0
    for left in room:
        end = start
        while end < len(needs.layers) and needs.layers[end] <= left:
            left -= needs.layers[end]  # noqa: PLW2901 - what is left of this device
            end += 1
        spans.append(range(start, end))
        start = end
    return spans if start == len(needs.layers) else None
