"""Products of many rows with a matrix of float32: the one place that knows which library is asked."""

from collections.abc import Callable

import torch
from torch.nn import functional

_ONEDNN: Callable[..., torch.Tensor] | None = (
    getattr(torch.ops.mkldnn, "_linear_pointwise", None) if torch.backends.mkldnn.enabled else None
)
"""oneDNN's product for a matrix that lies as it is; torch's compiler calls it, too. torch's own way leads to MKL, which
leaves half of an AMD processor's width unused: 107 GFLOP/s a core against 240 on Zen 5. Absent on some builds."""


def linear(rows: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """[..., in] and [out, in] -> [..., out] in the type of both."""
    plain = weight.device.type == "cpu" and weight.dtype == rows.dtype == torch.float32
    if _ONEDNN is None or not plain or not rows.numel():
        return functional.linear(rows, weight, bias)
    return _ONEDNN(rows, weight, bias, "none", [], "")
