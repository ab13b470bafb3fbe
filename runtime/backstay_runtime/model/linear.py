"""Which way of holding weights a setting means on a device."""

from enum import StrEnum

import torch

from backstay_runtime.model.held import Held


class Dtype(StrEnum):
    """The type of the numbers, where weights are not quantized."""

    AUTO = "auto"
    """float32 on a CPU, float16 on a GPU."""
    FLOAT32 = "float32"
    FLOAT16 = "float16"
    """On a CPU half the memory and some 1.6 times as fast as float32; log-probabilities are off by up to 0.015."""
    BFLOAT16 = "bfloat16"
    """As much memory, float32's range and three digits less than float16: exact where weights are stored so."""


class Quantization(StrEnum):
    """How many bits the weights have. Activations, norms, the cache and all sums keep their type."""

    NONE = "none"
    INT8 = "int8"
    """One scale an output channel."""
    INT4 = "int4"
    """One scale for 32 weights. The embedding and the output head have 8 bits."""


def held_as(dtype: Dtype, quantization: Quantization, device: torch.device) -> Held:
    """How the layers' matrices are held."""
    if quantization is not Quantization.NONE:
        return Held(quantization)
    if dtype is Dtype.AUTO:
        return Held.FLOAT32 if device.type == "cpu" else Held.FLOAT16
    return Held(dtype)


def table_held_as(dtype: Dtype, quantization: Quantization, device: torch.device) -> Held:
    """How the embedding and the output head are held: 4 bits cost them more than they save."""
    held = held_as(dtype, quantization, device)
    return Held.INT8 if held is Held.INT4 else held


def computed_in(dtype: Dtype, device: torch.device) -> torch.dtype:
    """The type of norms, activations and the cache, whatever the weights are held as."""
    if device.type == "cpu" or dtype is Dtype.FLOAT32:
        return torch.float32
    return torch.bfloat16 if dtype is Dtype.BFLOAT16 else torch.float16
