"""Products of many rows with a matrix of float32: the one place that knows which library is asked."""

from collections.abc import Callable

import torch
from torch.nn import functional

from backstay_runtime.buckets import bucket

_ONEDNN: Callable[..., torch.Tensor] | None = (
    getattr(torch.ops.mkldnn, "_linear_pointwise", None) if torch.backends.mkldnn.enabled else None
)
"""oneDNN's product for a matrix that lies as it is; torch's compiler calls it, too. torch's own way leads to MKL, which
leaves half of an AMD processor's width unused: 107 GFLOP/s a core against 240 on Zen 5. Absent on some builds."""


def linear(rows: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """[..., in] and [out, in] -> [..., out] in the type of both.

    Rows are padded: an encoder's batches have any number of them, and each would be compiled for.
    """
    plain = weight.device.type == "cpu" and weight.dtype == rows.dtype == torch.float32
    if _ONEDNN is None or not plain or not rows.numel():
        return functional.linear(rows, weight, bias)
    flat = rows.reshape(-1, rows.shape[-1])
    count = len(flat)
    if bucket(count) > count:
        flat = functional.pad(flat, (0, 0, 0, bucket(count) - count))
    product: torch.Tensor = _ONEDNN(flat, weight, bias, "none", [], "")
    return product[:count].view(*rows.shape[:-1], len(weight))
