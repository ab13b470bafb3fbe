"""Rotary position embeddings as tables, made once."""

import math

import torch

from backstay_runtime.model.config import LlamaConfig, RopeScaling


def rope_tables(config: LlamaConfig, positions: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosines and signed sines, each [positions, 1, head_dim] in float32.

    The first half of the sines is negated: rotating is then `x * cos + roll(x, head_dim / 2) * sin`, without
    splitting a head in two at every layer.
    """
    half = config.head_dim // 2
    exponents = torch.arange(half, dtype=torch.float32) * 2 / config.head_dim
    frequencies = 1.0 / torch.pow(torch.tensor(config.rope_theta, dtype=torch.float32), exponents)
    if config.rope_scaling is not None:
        frequencies = _scaled(frequencies, config.rope_scaling)
    angles = torch.arange(positions, dtype=torch.float32)[:, None] * frequencies[None, :]
    cosines = torch.cat((angles.cos(), angles.cos()), dim=-1)
    sines = torch.cat((-angles.sin(), angles.sin()), dim=-1)
    return cosines[:, None, :].to(device), sines[:, None, :].to(device)


def _scaled(frequencies: torch.Tensor, scaling: RopeScaling) -> torch.Tensor:
    if scaling.kind == "linear":
        return frequencies / scaling.factor
    # llama3: long waves are stretched by the factor, short ones stay, those between are blended.
    turns = scaling.trained_positions * frequencies / (2 * math.pi)
    low, high = scaling.low_frequency_factor, scaling.high_frequency_factor
    blend = ((turns - low) / (high - low)).clamp(0.0, 1.0)
    return frequencies / scaling.factor * (1 - blend) + frequencies * blend


def rotate(heads: torch.Tensor, cosines: torch.Tensor, sines: torch.Tensor) -> torch.Tensor:
    """Rotates [rows, heads, head_dim] by tables that were picked for the rows' positions, [rows, 1, head_dim]."""
    return torch.addcmul(heads * cosines, heads.roll(heads.shape[-1] // 2, -1), sines)
