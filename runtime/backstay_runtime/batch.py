"""How one step's slices of sequences are laid out as rows. Pure: lists of numbers, no torch."""

from collections.abc import Sequence
from dataclasses import dataclass

from backstay_runtime.kv.blocks import PADDING_BLOCK

_TOLERATED_PADDING = 2.0
"""Blocks gathered over blocks in use, up to which sequences of unequal length decode in one group."""


@dataclass(frozen=True, slots=True)
class Slice:
    """Consecutive tokens of one sequence, whose past is in the cache already."""

    number: int
    """Of the sequence; distinct within a step."""
    tokens: Sequence[int]
    start: int
    """Position of the first of them."""
    blocks: Sequence[int]
    """The sequence's block table; it has room for the tokens."""

    @property
    def end(self) -> int:
        """One past the last position."""
        return self.start + len(self.tokens)

    def slots(self, block_size: int) -> list[int]:
        """Where the tokens' keys and values are stored: block × block_size + offset."""
        places = range(self.start, self.end)
        return [self.blocks[place // block_size] * block_size + place % block_size for place in places]


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows that are attended together: one slice of a prompt, or one token each of several sequences."""

    slices: tuple[Slice, ...]
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


def lay_out(slices: Sequence[Slice], block_size: int) -> Layout:
    """Slices as rows: those of one token first, grouped by length, then each longer one by itself."""
    groups = _single_groups([one for one in slices if len(one.tokens) == 1], block_size)
    groups += [_group((one,), block_size) for one in slices if len(one.tokens) > 1]
    layout = Layout([], [], [], groups, {})
    for one in (one for group in groups for one in group.slices):
        layout.first_row[one.number] = len(layout.tokens)
        layout.tokens.extend(one.tokens)
        layout.positions.extend(range(one.start, one.end))
        layout.slots.extend(one.slots(block_size))
    return layout


def _single_groups(slices: list[Slice], block_size: int) -> list[Rows]:
    if not slices:
        return []
    widths = [_width(one, block_size) for one in slices]
    if max(widths) * len(slices) <= _TOLERATED_PADDING * sum(widths):
        return [_group(tuple(slices), block_size)]
    # One long sequence would pad all the others: those within a factor of two stay together.
    classes: dict[int, list[Slice]] = {}
    for one, width in zip(slices, widths, strict=True):
        classes.setdefault(width.bit_length(), []).append(one)
    return [_group(tuple(classes[key]), block_size) for key in sorted(classes)]


def _group(slices: tuple[Slice, ...], block_size: int) -> Rows:
    width = max(_width(one, block_size) for one in slices)
    blocks: list[int] = []
    for one in slices:
        table = one.blocks[:width]
        blocks.extend(table)
        blocks.extend([PADDING_BLOCK] * (width - len(table)))
    return Rows(slices, tuple(blocks), width)


def _width(one: Slice, block_size: int) -> int:
    return -(-one.end // block_size)
