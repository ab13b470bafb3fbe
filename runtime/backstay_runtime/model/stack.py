"""One projection of several layers: their matrices in one piece of memory."""

import torch

from backstay_runtime.model.errors import ModelError
from backstay_runtime.model.held import Held, Matrix


class Stack:
    """data [layers, out, …], scales [layers, out, …], bias [layers, out] or of no rows. Filled layer by layer."""

    def __init__(self, held: Held, layers: int, *, bias: bool) -> None:
        self.held = held
        self._layers = layers
        self._biased = bias
        self.data = self.scales = torch.empty(0)
        self.bias = torch.zeros(0, 0)

    def put(self, layer: int, weight: torch.Tensor, bias: torch.Tensor | None = None) -> None:
        """Holds one layer's weight, which may be freed afterwards."""
        try:
            matrix = Matrix.of(weight, self.held)
        except ValueError as why:
            raise ModelError(f"layer {layer} cannot be held as {self.held}: {why}; choose another dtype") from why
        if not len(self.data):
            self.data = matrix.data.new_empty((self._layers, *matrix.data.shape))
            self.scales = matrix.scales.new_empty((self._layers, *matrix.scales.shape))
            self.bias = torch.zeros(self._layers if self._biased else 0, len(weight), device=weight.device)
        self.data[layer].copy_(matrix.data)
        self.scales[layer].copy_(matrix.scales)
        if bias is not None:
            self.bias[layer].copy_(bias)

    def __call__(self, layer: int, rows: torch.Tensor) -> torch.Tensor:
        """[rows, in] -> [rows, out]."""
        product = Matrix(self.held, self.data[layer], self.scales[layer])(rows)
        return product + self.bias[layer].to(rows.dtype) if len(self.bias) else product

    @property
    def bytes(self) -> int:
        """Memory that it takes."""
        return sum(one.numel() * one.element_size() for one in (self.data, self.scales, self.bias))
