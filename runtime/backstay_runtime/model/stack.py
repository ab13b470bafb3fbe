"""One projection of several layers: their matrices in one piece of memory."""

import torch

from backstay_runtime.model.held import Held, Matrix


class Stack:
    """data [layers, out, …], scales [layers, out, …], bias [layers, out] or of no rows. To be filled layer by layer."""

    def __init__(
        self, held: Held, layers: int, shape: tuple[int, int], device: torch.device, *, bias: bool = False
    ) -> None:
        """`shape`: [out, in] of each layer. Raises ValueError where such weights cannot be held so."""
        rows, columns = shape
        every = Matrix.empty(held, layers * rows, columns, device)
        self.held = held
        self.data = every.data.view(layers, rows, -1)
        self.scales = every.scales.view(layers, rows, -1)
        self.bias = torch.zeros(layers if bias else 0, rows, device=device)

    def __getitem__(self, layer: int) -> Matrix:
        """One layer's, in the same memory."""
        return Matrix(self.held, self.data[layer], self.scales[layer])

    def __call__(self, layer: int, rows: torch.Tensor) -> torch.Tensor:
        """[rows, in] -> [rows, out]."""
        product = self[layer](rows)
        return product + self.bias[layer].to(rows.dtype) if len(self.bias) else product

    @property
    def bytes(self) -> int:
        """Memory that it takes."""
        return sum(one.numel() * one.element_size() for one in (self.data, self.scales, self.bias))
