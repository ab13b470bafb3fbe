from typing import Any

import pytest
from backstay_runtime.model.config import parse_config
from backstay_runtime.model.errors import ModelError

from .tiny import CONFIG


def test_heads_share_keys_and_values_where_the_config_says_so() -> None:
    config = parse_config(CONFIG, {})
    assert (config.heads, config.kv_heads, config.head_dim) == (4, 2, 8)
    assert [config.kv_bytes_per_token(width) for width in (2, 4)] == [2 * 2 * 2 * 8 * 2, 2 * 2 * 2 * 8 * 4]


def test_what_is_left_out_follows_from_the_rest() -> None:
    small = {name: value for name, value in CONFIG.items() if name not in ("head_dim", "num_key_value_heads")}
    config = parse_config(small, {})
    assert (config.head_dim, config.kv_heads) == (8, 4)


def test_the_generation_config_names_the_tokens_that_end_a_text() -> None:
    assert parse_config(CONFIG, {"eos_token_id": [3, 4]}).eos == {3, 4}
    assert parse_config(CONFIG, {}).eos == {257}


def test_newer_configs_keep_the_rotary_settings_together() -> None:
    newer = {name: value for name, value in CONFIG.items() if not name.startswith("rope")}
    config = parse_config({**newer, "rope_parameters": {"rope_type": "default", "rope_theta": 5e5}}, {})
    assert config.rope_theta == 5e5
    assert config.rope_scaling is None


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("architectures", ["GPT2LMHeadModel"], "GPT2LMHeadModel"),
        ("hidden_act", "gelu", "hidden_act 'gelu'"),
        ("attention_bias", True, "attention_bias"),
        ("hidden_size", 0, "hidden_size is 0"),
        ("num_hidden_layers", "two", "num_hidden_layers is 'two'"),
        ("num_key_value_heads", 3, "no multiple of num_key_value_heads 3"),
        ("head_dim", 7, "head_dim 7 is odd"),
        ("rope_scaling", {"rope_type": "yarn", "factor": 2}, "'yarn'"),
    ],
)
def test_a_model_that_would_be_computed_wrongly_is_refused_by_field(field: str, value: Any, said: str) -> None:
    with pytest.raises(ModelError, match=said):
        parse_config({**CONFIG, field: value}, {})
