"""What a recorded step reads: memory that stays where it is, and is written anew as a whole for every step."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from backstay_runtime.graphs.shapes import Shape
from backstay_runtime.kv.blocks import PADDING_BLOCK


class Inputs:
    """Tokens, positions and slots [rows], block tables [rows × width], all int64 and one piece of memory.

    A row beyond a step's own is the first token of a sequence in a block of its own, `spare`: so it writes where nobody
    reads but it. It must not be the padding block, which others' tables name: a number there that is not finite would
    make theirs so, masked or not.
    """

    def __init__(self, shape: Shape, block_size: int, spare: int, device: torch.device) -> None:
        """Holds padding rows alone until it is filled. `spare`: a block that no sequence ever holds."""
        self._shape, self._block_size, self._spare = shape, block_size, spare
        rows = shape.rows
        with torch.inference_mode(False):  # it is written to in steps to come, whoever makes them
            self._whole = torch.zeros(rows * (3 + shape.width), dtype=torch.long, device=device)
        self.tokens, self.positions, self.slots = (self._whole[at * rows : (at + 1) * rows] for at in range(3))
        self.blocks = self._whole[3 * rows :]
        self.fill([], [], [], np.zeros((0, shape.width), dtype=np.int64))

    def fill(self, tokens: Sequence[int], positions: Sequence[int], slots: Sequence[int], blocks: Any) -> None:
        """A step's rows, padding after them. `blocks`: int64 [rows, at most width]. One copy to the device."""
        rows, given = self._shape.rows, len(tokens)
        whole = np.zeros(rows * (3 + self._shape.width), dtype=np.int64)
        lists, tables = whole[: 3 * rows].reshape(3, rows), whole[3 * rows :].reshape(rows, -1)
        lists[2], lists[:, :given] = self._spare * self._block_size, (tokens, positions, slots)
        tables[:given], tables[given:] = PADDING_BLOCK, self._spare
        tables[:given, : blocks.shape[1]] = blocks
        self._whole.copy_(torch.from_numpy(whole))
