"""How one step's chunks are laid out as rows. Pure: lists of numbers, no torch."""

from collections.abc import Sequence
from dataclasses import dataclass

from backstay_runtime.kv.blocks import PADDING_BLOCK
from backstay_runtime.schedule.scheduler import Chunk

_TOLERATED_PADDING = 2.0
"""Blocks gathered over blocks in use, up to which sequences of unequal length decode in one group."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows that are attended together: one chunk of a prompt, or one token each of several sequences."""

    chunks: tuple[Chunk, ...]
    blocks: tuple[int, ...]
    """Block tables padded to `width` blocks, one after another."""
    width: int


@dataclass(frozen=True, slots=True)
class Layout:
    """One row a token, in the order of the groups."""

    tokens: list[int]
    positions: list[int]
    slots: list[int]
    groups: list[Rows]
    first_row: dict[int, int]
    """Number of a sequence -> its first row."""


def lay_out(chunks: Sequence[Chunk], block_size: int) -> Layout:
    """Chunks as rows: those that decode first, grouped by length, then each longer chunk by itself."""
    groups = [*_decode_groups([c for c in chunks if c.count == 1], block_size)]
    groups += [_group((chunk,), block_size) for chunk in chunks if chunk.count > 1]
    layout = Layout([], [], [], groups, {})
    for chunk in (chunk for group in groups for chunk in group.chunks):
        layout.first_row[chunk.sequence.number] = len(layout.tokens)
        layout.tokens.extend(chunk.sequence.tokens[chunk.start : chunk.end])
        layout.positions.extend(range(chunk.start, chunk.end))
        blocks = chunk.sequence.blocks
        layout.slots.extend(
            blocks[place // block_size] * block_size + place % block_size for place in range(chunk.start, chunk.end)
        )
    return layout


def _decode_groups(chunks: list[Chunk], block_size: int) -> list[Rows]:
    if not chunks:
        return []
    widths = {chunk.sequence.number: _width(chunk, block_size) for chunk in chunks}
    together = max(widths.values()) * len(chunks)
    if together <= _TOLERATED_PADDING * sum(widths.values()):
        return [_group(tuple(chunks), block_size)]
    # One long sequence would pad all the others: those within a factor of two stay together.
    classes: dict[int, list[Chunk]] = {}
    for chunk in chunks:
        classes.setdefault(widths[chunk.sequence.number].bit_length(), []).append(chunk)
    return [_group(tuple(classes[key]), block_size) for key in sorted(classes)]


def _group(chunks: tuple[Chunk, ...], block_size: int) -> Rows:
    width = max(_width(chunk, block_size) for chunk in chunks)
    blocks: list[int] = []
    for chunk in chunks:
        table = chunk.sequence.blocks[:width]
        blocks.extend(table)
        blocks.extend([PADDING_BLOCK] * (width - len(table)))
    return Rows(chunks, tuple(blocks), width)


def _width(chunk: Chunk, block_size: int) -> int:
    return -(-chunk.end // block_size)
