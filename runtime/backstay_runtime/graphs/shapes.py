"""The few shapes that decoding steps are padded to. Pure."""

from dataclasses import dataclass

MOST_ROWS = 64
"""Sequences in a recorded step; beyond, the products outlast the calls that a recording saves."""

MOST_BLOCKS = 1024
"""Blocks of all rows together. A recorded step gathers that many however few are in use, and with more of them that
costs more than the calls: then the step takes the device's own way of attending."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Both are powers of two."""

    rows: int
    width: int
    """Blocks of each row's table."""


def shape_for(rows: int, width: int) -> Shape | None:
    """The smallest shape that has room for so many rows and for block tables so wide; None where there is none."""
    found = Shape(_power(rows), _power(width))
    return found if found.rows <= MOST_ROWS and found.rows * found.width <= MOST_BLOCKS else None


def _power(number: int) -> int:
    """The least power of two that is not less."""
    return 1 << (number - 1).bit_length()
