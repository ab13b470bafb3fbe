"""The manifest: what a model consists of and what it was qualified with. Its own digest names the model."""

import json
import math
import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    Field,
    StringConstraints,
    ValidationError,
    field_validator,
    model_validator,
)

from backstay_contract import digest as digests
from backstay_contract.base import Document
from backstay_contract.digest import Digest
from backstay_contract.measurement import Measurement, content_of
from backstay_contract.metric import KINDS, PERPLEXITY_TOLERANCE, MetricName, limit_of
from backstay_contract.names import MANIFEST_FILE
from backstay_contract.profile import HardwareProfile

MAX_BYTES = 4 * 1024 * 1024
"""A manifest larger than this is refused before it is parsed."""
MAX_FILES = 10_000

FORBIDDEN_SUFFIXES = (".pt", ".pth", ".bin", ".pkl", ".pickle", ".ckpt", ".joblib")
"""Formats that can carry pickled code. No pickle is ever loaded, so none may be part of a model."""


def check_path(path: str) -> str:
    """A path of a model's file: relative, with forward slashes, below the model's folder.

    Raises ValueError, naming the path, for anything that could leave the folder or could not be a file's name.
    """
    if not path or len(path.encode()) > 512:
        raise ValueError(f"file path {path[:40]!r}: must have 1 to 512 bytes")
    if re.search(r"[\x00-\x1f\x7f\\]", path):
        raise ValueError(f"file path {path!r}: control characters and backslashes are refused")
    pure = PurePosixPath(path)
    if pure.is_absolute() or str(pure) != path or not pure.parts or any(part in ("..", ".") for part in pure.parts):
        raise ValueError(f"file path {path!r}: must be relative and normalised, without '..'")
    if any(len(part.encode()) > 255 for part in pure.parts):
        raise ValueError(f"file path {path[:40]!r}…: each name in it may have 255 bytes")
    if pure.parts[0].casefold() == MANIFEST_FILE:
        raise ValueError(f"file path {path!r}: the manifest's own place; it does not list itself")
    if path.lower().endswith(FORBIDDEN_SUFFIXES):
        raise ValueError(f"file path {path!r}: formats that can carry pickled code are refused; convert to safetensors")
    return path


RelativePath = Annotated[str, AfterValidator(check_path)]


class ModelFile(Document):
    """One file of the model."""

    path: RelativePath
    size: Annotated[int, Field(ge=0)]
    """Bytes."""
    sha256: Digest


class RecordedBaseline(Document):
    """A recorded number with its unit, the tolerated factor, and how it was measured."""

    value: Annotated[float, Field(ge=0)]
    unit: str
    tolerance: Annotated[float, Field(ge=1, le=1000)] = 2.0
    """limit = value × tolerance (÷ tolerance where lower is worse)."""
    measured: Measurement


MAX_NATS_PER_TOKEN = 100
"""A uniform guess over a million tokens loses 14."""


class EvaluationItem(Document):
    """One text of the evaluation set with its recorded loss."""

    text: str
    nll: Annotated[float, Field(ge=0)]
    """Sum of -ln p(token i | tokens before) over the predicted tokens."""
    tokens: Annotated[int, Field(ge=1)]
    """Predicted tokens."""

    @model_validator(mode="after")
    def _loss_can_be_one(self) -> "EvaluationItem":
        if self.nll > MAX_NATS_PER_TOKEN * self.tokens:
            raise ValueError(
                f"nll: {self.nll:g} over {self.tokens} tokens is no loss: {MAX_NATS_PER_TOKEN} nats a token at most"
            )
        return self


def recorded_perplexity(items: Sequence[EvaluationItem]) -> float | None:
    """exp of the recorded loss per token; None without items."""
    tokens = sum(item.tokens for item in items)
    return math.exp(math.fsum(item.nll for item in items) / tokens) if tokens else None


class Architecture(Document):
    """What the runtime must be able to run."""

    family: Literal["llama", "qwen2", "qwen3", "bert"]
    parameters: Annotated[int, Field(ge=1)] | None = None
    dtype: Literal["float32", "float16", "bfloat16"] = "float32"
    """Type of the stored weights."""
    max_model_len: Annotated[int, Field(ge=1)] | None = None


class Manifest(Document):
    """A model: its files, what it runs on, and the baselines that its rollout is judged by."""

    schema_version: Literal[1] = 1
    name: Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9._-]{0,98}[a-z0-9])?$")]
    version: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9]([A-Za-z0-9._+-]{0,61}[A-Za-z0-9])?$")]
    files: Annotated[tuple[ModelFile, ...], Field(min_length=1, max_length=MAX_FILES)]
    architecture: Architecture
    hardware_profile: HardwareProfile = HardwareProfile()
    baselines: dict[MetricName, RecordedBaseline] = {}
    evaluation: tuple[EvaluationItem, ...] = ()
    dependencies: dict[str, str] = {}
    """Packages the model was qualified with: name -> version."""
    quantization: str | None = None

    @field_validator("files")
    @classmethod
    def _paths_are_distinct(cls, files: tuple[ModelFile, ...]) -> tuple[ModelFile, ...]:
        # Case is folded: two paths that differ in case only are one file on some file systems.
        seen: set[str] = set()
        for file in files:
            if file.path.casefold() in seen:
                raise ValueError(f"file path {file.path!r} is listed twice")
            seen.add(file.path.casefold())
        for file in files:
            for parent in PurePosixPath(file.path).parents:
                if str(parent).casefold() in seen:
                    raise ValueError(f"file path {file.path!r}: {str(parent)!r} is a file and cannot be a folder too")
        return files

    @field_validator("baselines")
    @classmethod
    def _units_are_the_metrics_own(
        cls, baselines: dict[MetricName, RecordedBaseline]
    ) -> dict[MetricName, RecordedBaseline]:
        for metric, baseline in baselines.items():
            unit = KINDS[metric].unit
            if baseline.unit != unit:
                raise ValueError(f"baselines.{metric}.unit: {baseline.unit!r} is not its unit; write {unit!r}")
            if baseline.value == 0 and metric is not MetricName.ERROR_RATE:
                raise ValueError(f"baselines.{metric}.value: 0 {unit} cannot have been measured")
        return baselines

    @model_validator(mode="after")
    def _baselines_are_of_these_files_and_this_hardware(self) -> "Manifest":
        for metric, baseline in self.baselines.items():
            why = baseline.measured.refusal(self.content, self.hardware_profile, None)
            if why is not None:
                raise ValueError(f"baselines.{metric}.measured: {why}; measure it again with backstay bench")
        return self

    @property
    def content(self) -> str:
        """Digest of the files alone."""
        return content_of(self.files)

    @property
    def size(self) -> int:
        """Bytes of all files together."""
        return sum(file.size for file in self.files)

    @property
    def recorded_perplexity(self) -> float | None:
        """Perplexity of the evaluation set as it was recorded; None without a set."""
        return recorded_perplexity(self.evaluation)

    def unusable(self, runtime_version: str) -> dict[MetricName, str]:
        """Why baselines must not be used by a runtime of this version."""
        said = {
            name: baseline.measured.refusal(self.content, self.hardware_profile, runtime_version)
            for name, baseline in self.baselines.items()
        }
        return {name: why for name, why in said.items() if why is not None}

    def limits(self, runtime_version: str | None = None) -> dict[MetricName, float]:
        """The limit of each recorded baseline that a runtime of this version may use, in the metric's unit.

        An evaluation set is a baseline of perplexity by itself, where none is written down beside it.
        """
        unusable = {} if runtime_version is None else self.unusable(runtime_version)
        usable = {name: b for name, b in self.baselines.items() if name not in unusable}
        limits = {name: limit_of(name, b.value, b.tolerance) for name, b in usable.items()}
        recorded = self.recorded_perplexity
        if recorded is not None and MetricName.PERPLEXITY not in limits:
            limits[MetricName.PERPLEXITY] = limit_of(MetricName.PERPLEXITY, recorded, PERPLEXITY_TOLERANCE)
        return limits


class ManifestError(ValueError):
    """A manifest that cannot be used; the message names the field and what is wrong with it."""


def dump(manifest: Manifest) -> bytes:
    """The bytes of manifest.json. Their SHA-256 is the model's digest, so equal manifests give equal bytes."""
    return json.dumps(manifest.to_json(), indent=1, sort_keys=True, ensure_ascii=False).encode() + b"\n"


def parse(data: bytes) -> Manifest:
    """The manifest in manifest.json's bytes.

    Raises ManifestError, naming each field that is wrong.
    """
    if len(data) > MAX_BYTES:
        raise ManifestError(f"{MANIFEST_FILE} has {len(data)} bytes, more than the {MAX_BYTES} that are read")
    try:
        return Manifest.model_validate_json(data)
    except ValidationError as error:
        raise ManifestError(f"{MANIFEST_FILE}: {describe(error)}") from None


def describe(error: ValidationError) -> str:
    """A validation error as one line: `field: what is wrong (got value)`, fields separated by `; `."""
    lines = []
    for one in error.errors(include_url=False):
        where = ".".join(str(part) for part in one["loc"]) or "document"
        given = repr(one["input"])
        value = "" if len(given) > 80 or one["type"] in ("missing", "json_invalid") else f" (got {given})"
        lines.append(f"{where}: {one['msg'].removeprefix('Value error, ')}{value}")
    return "; ".join(lines)


def digest_of(data: bytes) -> str:
    """The model's digest: SHA-256 of manifest.json's exact bytes."""
    return digests.of_bytes(data)
