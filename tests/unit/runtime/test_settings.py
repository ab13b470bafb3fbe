from pathlib import Path

import pytest
import torch
from backstay_contract.metric import MetricName
from backstay_contract.names import Env
from backstay_contract.termination import GaveUp
from backstay_runtime.assemble import BLOCK_SIZE, plan_sizes, token_bytes
from backstay_runtime.folder import GiveUpError
from backstay_runtime.kv.blocks import RESERVED_BLOCKS
from backstay_runtime.model.config import parse_config
from backstay_runtime.model.linear import Dtype, Quantization
from backstay_runtime.schedule.batching import Batching
from backstay_runtime.settings import SettingsError, read
from hypothesis import given
from hypothesis import strategies as st

from .tiny import CONFIG

DIGEST = {Env.MODEL_DIGEST: "ab" * 32}
TINY = parse_config(CONFIG, {})
A_TOKEN = TINY.kv_bytes_per_token(4)


def test_a_pod_finds_its_model_by_the_digest() -> None:
    assert read(DIGEST).folder == Path("/models") / ("ab" * 32)
    assert read({**DIGEST, Env.MODELS_FOLDER: "/elsewhere"}).folder == Path("/elsewhere") / ("ab" * 32)
    assert read(DIGEST).digest == "sha256:" + "ab" * 32


def test_a_folder_needs_no_digest() -> None:
    assert read({}, Path("/a")).digest is None
    with pytest.raises(SettingsError, match=Env.MODEL_DIGEST):
        read({})


def test_what_is_not_set_has_its_default() -> None:
    settings = read(DIGEST)
    assert (settings.port, settings.control_port, settings.dtype) == (8000, 8081, Dtype.AUTO)
    assert settings.max_model_len is None
    assert settings.limits == {}
    assert read({**DIGEST, Env.PORT: ""}).port == 8000


def test_limits_come_by_metric() -> None:
    settings = read({**DIGEST, Env.LIMITS: '{"p99LatencyMs": 840, "tokensPerSecond": 3.5}'})
    assert settings.limits == {MetricName.P99_LATENCY: 840.0, MetricName.TOKENS_PER_SECOND: 3.5}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (Env.PORT, "http"),
        (Env.PORT, "-1"),
        (Env.MAX_NUM_SEQS, "0"),
        (Env.MAX_MODEL_LEN, "0"),
        (Env.MAX_MODEL_LEN, "1.5"),
        (Env.QUEUE_LENGTH, "1e3"),
        (Env.THREADS, "0"),
        (Env.DTYPE, "int3"),
        (Env.LIMITS, "[]"),
        (Env.LIMITS, "{"),
        (Env.LIMITS, '{"speed": 1}'),
        (Env.LIMITS, '{"p99LatencyMs": "fast"}'),
        (Env.LIMITS, '{"p99LatencyMs": 0}'),
        (Env.LIMITS, '{"p99LatencyMs": NaN}'),
        (Env.MODEL_DIGEST, "abc"),
        (Env.CONTROL_TOKEN_SHA256, "secret"),
        (Env.HARDWARE_PROFILE, '{"gpu": 5}'),
    ],
)
def test_a_wrong_setting_is_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match=name):
        read({**DIGEST, name: value})


def test_what_is_no_hash_of_a_token_is_not_repeated_in_the_message() -> None:
    with pytest.raises(SettingsError) as refused:
        read({**DIGEST, Env.CONTROL_TOKEN_SHA256: "the token itself"})
    assert "the token itself" not in str(refused.value)


@given(memory=st.integers(200_000, 10**9), most=st.integers(1, 64), length=st.none() | st.integers(2, 256))
def test_the_cache_fits_into_its_share_and_holds_one_whole_context(memory: int, most: int, length: int | None) -> None:
    sizes = plan_sizes(TINY, memory, token_bytes=A_TOKEN, max_model_len=length, max_num_seqs=most, queue_length=4)
    tokens = (sizes.blocks - RESERVED_BLOCKS) * BLOCK_SIZE
    assert sizes.blocks * BLOCK_SIZE * A_TOKEN <= 0.6 * memory
    assert sizes.max_model_len <= tokens <= most * (sizes.max_model_len + BLOCK_SIZE)
    assert length is None or sizes.max_model_len == length


def test_with_ample_memory_every_sequence_may_have_a_whole_context() -> None:
    sizes = plan_sizes(TINY, 10**9, token_bytes=A_TOKEN, max_model_len=None, max_num_seqs=8, queue_length=4)
    assert sizes.max_model_len == 256
    assert sizes.blocks == 8 * 16 + RESERVED_BLOCKS


def test_a_wanted_context_that_does_not_fit_is_refused_with_the_numbers() -> None:
    with pytest.raises(GiveUpError, match="maxModelLen 256 needs") as refused:
        plan_sizes(TINY, 100_000, token_bytes=A_TOKEN, max_model_len=256, max_num_seqs=8, queue_length=4)
    assert refused.value.termination.reason is GaveUp.OUT_OF_MEMORY


def test_without_a_wanted_context_what_fits_is_offered() -> None:
    sizes = plan_sizes(TINY, 100_000, token_bytes=A_TOKEN, max_model_len=None, max_num_seqs=8, queue_length=4)
    assert sizes.max_model_len < 256


def test_a_token_takes_half_as_much_where_the_cache_has_16_bits() -> None:
    cpu, gpu = torch.device("cpu"), torch.device("cuda")
    assert token_bytes(TINY, Dtype.AUTO, cpu) == token_bytes(TINY, Dtype.FLOAT16, cpu) == A_TOKEN
    assert token_bytes(TINY, Dtype.AUTO, gpu) == token_bytes(TINY, Dtype.BFLOAT16, gpu) == A_TOKEN // 2


def test_a_context_longer_than_the_models_is_refused() -> None:
    with pytest.raises(GiveUpError, match="more than the model's 256 positions") as refused:
        plan_sizes(TINY, 10**9, token_bytes=A_TOKEN, max_model_len=257, max_num_seqs=8, queue_length=4)
    assert refused.value.termination.reason is GaveUp.SETTINGS_INVALID


def test_the_batching_is_one_of_those_there_are() -> None:
    assert read({**DIGEST, Env.BATCHING: "static"}).batching is Batching.STATIC
    with pytest.raises(SettingsError, match="'pairs': write one of continuous, dynamic, static"):
        read({**DIGEST, Env.BATCHING: "pairs"})


def test_a_target_latency_is_told_in_milliseconds() -> None:
    assert read({**DIGEST, Env.TARGET_LATENCY_MS: "250"}).target_seconds == 0.25
    assert read(DIGEST).target_seconds is None


@pytest.mark.parametrize("text", ["0", "-1", "nan", "1e9", "quick"])
def test_a_target_latency_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="write milliseconds above 0"):
        read({**DIGEST, Env.TARGET_LATENCY_MS: text})


def test_output_rules_are_read_and_wrong_ones_refused() -> None:
    (one,) = read({**DIGEST, Env.OUTPUT_RULES: '[{"rule": "Length", "fallback": "Truncate", "most": 9}]'}).rules
    assert (one.rule, one.fallback, one.most) == ("Length", "Truncate", 9)
    with pytest.raises(SettingsError, match=Env.OUTPUT_RULES):
        read({**DIGEST, Env.OUTPUT_RULES: '[{"rule": "Polite"}]'})


def test_weights_are_whole_unless_the_environment_says_otherwise(tmp_path: Path) -> None:
    plain = read({}, tmp_path)
    assert (plain.quantization, plain.force_quantization) == (Quantization.NONE, False)
    asked = read({Env.QUANTIZATION: "int8", Env.FORCE_QUANTIZATION: "1"}, tmp_path)
    assert (asked.quantization, asked.force_quantization) == (Quantization.INT8, True)


def test_an_unknown_quantization_is_refused_with_those_that_are_known(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"BACKSTAY_QUANTIZATION is 'int3': write one of none, int8, int4"):
        read({Env.QUANTIZATION: "int3"}, tmp_path)
