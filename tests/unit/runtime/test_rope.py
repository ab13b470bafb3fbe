import math

import torch
from backstay_runtime.model.config import parse_config
from backstay_runtime.model.rope import rope_tables, rotate

from .tiny import CONFIG

CPU = torch.device("cpu")


def test_the_first_position_is_not_rotated() -> None:
    cosines, sines = rope_tables(parse_config(CONFIG, {}), 4, CPU)
    heads = torch.randn(1, 3, 8, generator=torch.Generator().manual_seed(0))
    assert torch.equal(rotate(heads, cosines[:1], sines[:1]), heads)


def test_scores_depend_on_the_distance_alone() -> None:
    cosines, sines = rope_tables(parse_config(CONFIG, {}), 64, CPU)
    query, key = torch.randn(2, 1, 1, 8, generator=torch.Generator().manual_seed(0))

    def score(here: int, there: int) -> float:
        turned = rotate(query, cosines[[here]], sines[[here]]), rotate(key, cosines[[there]], sines[[there]])
        return float((turned[0] * turned[1]).sum())

    assert math.isclose(score(5, 2), score(60, 57), rel_tol=1e-4)
    assert not math.isclose(score(5, 2), score(5, 3), rel_tol=1e-2)


def test_linear_scaling_stretches_positions() -> None:
    plain = rope_tables(parse_config(CONFIG, {}), 8, CPU)[0]
    scaled = {**CONFIG, "rope_scaling": {"rope_type": "linear", "factor": 2.0}}
    assert torch.allclose(rope_tables(parse_config(scaled, {}), 16, CPU)[0][::2], plain, atol=1e-6)


def test_llama3_scaling_leaves_short_waves_and_stretches_long_ones() -> None:
    scaling = {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    }
    plain = rope_tables(parse_config(CONFIG, {}), 2, CPU)[1][1, 0]
    scaled = rope_tables(parse_config({**CONFIG, "rope_scaling": scaling}, {}), 2, CPU)[1][1, 0]
    assert scaled[0] == plain[0]  # 64 positions hold 10 turns
    assert math.isclose(float(plain[3] / scaled[3]), 8.0, rel_tol=1e-3)  # and 0.01 turns
