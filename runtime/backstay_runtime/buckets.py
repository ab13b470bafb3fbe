"""Numbers of rows that products are padded to. Pure.

oneDNN compiles a product for each number of rows and each matrix, and keeps it: a number takes 3 MB for a decoder's
matrices, and 5 to 40 ms at its first use. For every number up to 256 that is 700 MB; for these few it is a tenth.
"""

_SMALL = (1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256)
_STEPS = 8
"""Numbers for each doubling beyond: an eighth is added at most."""


def bucket(rows: int) -> int:
    """The number of rows that this many are padded to."""
    if rows <= _SMALL[-1]:
        return next(size for size in _SMALL if rows <= size)
    step = 1 << ((rows - 1).bit_length() - 1)
    step //= _STEPS
    return -(-rows // step) * step


def buckets_up_to(rows: int) -> list[int]:
    """Every number of rows that up to `rows` are padded to, ascending."""
    return sorted({bucket(count) for count in range(1, rows + 1)})
