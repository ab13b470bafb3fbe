"""The runtime's settings, from the environment. Pure: the environment is an argument."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from backstay_contract import digest as digests
from backstay_contract.metric import MetricName
from backstay_contract.names import Env, Port
from backstay_contract.names import Path as PodPath
from backstay_contract.output import OutputRule
from backstay_contract.profile import HardwareProfile
from pydantic import TypeAdapter, ValidationError

from backstay_runtime.model.linear import Dtype, Quantization
from backstay_runtime.schedule.batching import Batching


class SettingsError(Exception):
    """A setting that cannot be used; the message names the variable, its value and the remedy."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What a serving process is told from outside. None: take it from the model or the machine."""

    folder: Path
    """The model's folder."""
    digest: str | None
    name: str | None
    version: str | None
    host: str
    port: int
    control_port: int
    grpc_port: int | None
    """None: no gRPC."""
    control_token_sha256: str | None
    """Hex; without it the control port refuses everybody."""
    limits: Mapping[MetricName, float]
    """In each metric's unit."""
    hardware: HardwareProfile
    max_model_len: int | None
    max_num_seqs: int
    queue_length: int
    dtype: Dtype
    quantization: Quantization
    force_quantization: bool
    """Also where it is slower than full precision."""
    threads: int | None
    batching: Batching
    rules: tuple[OutputRule, ...]
    """What answers are held against."""
    target_seconds: float | None
    """Of an answer, on average."""
    grace_seconds: float


def read(environment: Mapping[str, str], folder: Path | None = None) -> Settings:
    """The settings in the environment; `folder` replaces the one that the digest names. Raises SettingsError."""
    digest = _digest(environment)
    if folder is None:
        if digest is None:
            raise SettingsError(f"{Env.MODEL_DIGEST} is not set: set it, or give the model's folder with --model")
        folder = Path(environment.get(Env.MODELS_FOLDER, PodPath.MODELS)) / digests.hex_of(digest)
    return Settings(
        folder=folder,
        digest=digest,
        name=environment.get(Env.MODEL_NAME) or None,
        version=environment.get(Env.MODEL_VERSION) or None,
        host=environment.get(Env.HOST, "0.0.0.0"),  # noqa: S104 - a pod serves its network
        port=_whole(environment, Env.PORT, Port.HTTP, least=0),
        control_port=_whole(environment, Env.CONTROL_PORT, Port.CONTROL, least=0),
        grpc_port=_whole(environment, Env.GRPC_PORT, 0, least=0) if environment.get(Env.GRPC_PORT) else None,
        control_token_sha256=_token(environment),
        limits=_limits(environment),
        hardware=_hardware(environment),
        max_model_len=_optional(environment, Env.MAX_MODEL_LEN),
        max_num_seqs=_whole(environment, Env.MAX_NUM_SEQS, 16, least=1),
        queue_length=_whole(environment, Env.QUEUE_LENGTH, 64, least=0),
        dtype=_dtype(environment),
        quantization=_quantization(environment),
        force_quantization=_whole(environment, Env.FORCE_QUANTIZATION, 0, least=0) > 0,
        threads=_optional(environment, Env.THREADS),
        batching=_batching(environment),
        rules=_rules(environment),
        target_seconds=_target(environment),
        grace_seconds=float(_whole(environment, Env.GRACE_SECONDS, 30, least=0)),
    )


def _digest(environment: Mapping[str, str]) -> str | None:
    text = environment.get(Env.MODEL_DIGEST)
    if not text:
        return None
    try:
        return digests.normalise(text)
    except ValueError as why:
        raise SettingsError(f"{Env.MODEL_DIGEST}: {why}") from why


def _whole(environment: Mapping[str, str], name: str, default: int, *, least: int) -> int:
    text = environment.get(name) or str(default)
    if not re.fullmatch(r"\d{1,9}", text) or int(text) < least:
        raise SettingsError(f"{name} is {text!r}: write a whole number of at least {least}")
    return int(text)


def _optional(environment: Mapping[str, str], name: str) -> int | None:
    return _whole(environment, name, 1, least=1) if environment.get(name) else None


def _dtype(environment: Mapping[str, str]) -> Dtype:
    text = environment.get(Env.DTYPE) or Dtype.AUTO
    try:
        return Dtype(text)
    except ValueError:
        raise SettingsError(f"{Env.DTYPE} is {text!r}: write one of {', '.join(Dtype)}") from None


def _batching(environment: Mapping[str, str]) -> Batching:
    text = environment.get(Env.BATCHING) or Batching.CONTINUOUS
    try:
        return Batching(text)
    except ValueError:
        raise SettingsError(f"{Env.BATCHING} is {text!r}: write one of {', '.join(Batching)}") from None


def _rules(environment: Mapping[str, str]) -> tuple[OutputRule, ...]:
    text = environment.get(Env.OUTPUT_RULES) or "[]"
    try:
        return TypeAdapter(tuple[OutputRule, ...]).validate_json(text)
    except ValidationError as why:
        raise SettingsError(f"{Env.OUTPUT_RULES} is {text[:200]!r}: {why.errors()[0]['msg']}") from why


def _target(environment: Mapping[str, str]) -> float | None:
    text = environment.get(Env.TARGET_LATENCY_MS)
    if not text:
        return None
    if not re.fullmatch(r"\d{1,9}(\.\d{1,9})?", text) or float(text) == 0:
        raise SettingsError(f"{Env.TARGET_LATENCY_MS} is {text!r}: write milliseconds above 0")
    return float(text) / 1000


def _quantization(environment: Mapping[str, str]) -> Quantization:
    text = environment.get(Env.QUANTIZATION) or Quantization.NONE
    try:
        return Quantization(text)
    except ValueError:
        raise SettingsError(f"{Env.QUANTIZATION} is {text!r}: write one of {', '.join(Quantization)}") from None


def _token(environment: Mapping[str, str]) -> str | None:
    text = environment.get(Env.CONTROL_TOKEN_SHA256)
    if not text:
        return None
    if not re.fullmatch(r"[0-9a-f]{64}", text):
        raise SettingsError(f"{Env.CONTROL_TOKEN_SHA256} is no SHA-256: write 64 lower-case hex digits")
    return text


def _limits(environment: Mapping[str, str]) -> dict[MetricName, float]:
    text = environment.get(Env.LIMITS) or "{}"
    try:
        value = json.loads(text)
        limits = {MetricName(name): float(limit) for name, limit in value.items()}
    except (ValueError, AttributeError, TypeError) as why:
        raise SettingsError(f"{Env.LIMITS} is {text[:200]!r}: write a JSON object of metric and limit ({why})") from why
    for name, limit in limits.items():
        if not 0 < limit < float("inf"):
            raise SettingsError(f"{Env.LIMITS}: {name} is {limit}, and must be positive and finite")
    return limits


def _hardware(environment: Mapping[str, str]) -> HardwareProfile:
    text = environment.get(Env.HARDWARE_PROFILE)
    if not text:
        return HardwareProfile()
    try:
        return HardwareProfile.model_validate_json(text)
    except ValidationError as why:
        raise SettingsError(f"{Env.HARDWARE_PROFILE} is {text[:200]!r}: {why.errors()[0]['msg']}") from why
