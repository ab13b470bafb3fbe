"""What decoding steps are padded to, and with what."""

import numpy as np
import torch
from backstay_runtime.graphs.inputs import Inputs
from backstay_runtime.graphs.shapes import MOST_BLOCKS, MOST_ROWS, Shape, shape_for
from backstay_runtime.kv.blocks import PADDING_BLOCK
from hypothesis import given
from hypothesis import strategies as st

from .decoding import BLOCK

CPU = torch.device("cpu")


@given(rows=st.integers(1, 300), width=st.integers(1, 3000))
def test_a_shape_has_room_for_the_step_and_is_at_most_twice_as_large_each_way(rows: int, width: int) -> None:
    shape = shape_for(rows, width)
    if shape is None:
        assert rows > MOST_ROWS // 2 or rows * width > MOST_BLOCKS // 4
    else:
        assert rows <= shape.rows < 2 * rows
        assert width <= shape.width < 2 * width
        assert shape.rows <= MOST_ROWS
        assert shape.rows * shape.width <= MOST_BLOCKS


def test_shapes_are_few() -> None:
    found = {shape_for(rows, width) for rows in range(1, MOST_ROWS + 1) for width in range(1, MOST_BLOCKS + 1)}
    assert len(found - {None}) == 56


@given(rows=st.integers(0, 4), width=st.integers(1, 8), before=st.integers(0, 4), spare=st.integers(2, 9))
def test_nothing_of_an_earlier_step_is_left(rows: int, width: int, before: int, spare: int) -> None:
    used, fresh = (Inputs(Shape(4, 8), BLOCK, spare, CPU) for _ in range(2))
    used.fill([9] * before, [8] * before, [7] * before, np.full((before, 8), 6, dtype=np.int64))
    for inputs in (used, fresh):
        inputs.fill([1] * rows, [2] * rows, [3] * rows, np.full((rows, width), 4, dtype=np.int64))
    for name in ("tokens", "positions", "slots", "blocks"):
        assert torch.equal(getattr(used, name), getattr(fresh, name))
    assert used.slots.tolist() == [3] * rows + [spare * BLOCK] * (4 - rows)
    tables = used.blocks.view(4, 8)
    assert tables[:rows].tolist() == [[4] * width + [PADDING_BLOCK] * (8 - width)] * rows
    assert bool((tables[rows:] == spare).all())
