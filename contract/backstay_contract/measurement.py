"""How a baseline was measured, and when such a number may be used at all."""

import hashlib
import json
from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Final, Literal, Protocol

from pydantic import Field, model_validator

from backstay_contract.base import Document
from backstay_contract.digest import PREFIX, Digest
from backstay_contract.profile import HardwareProfile

MIN_SAMPLES: Final = 100
"""Requests that a percentile of `backstay bench` rests on at least; with fewer the 99th is the slowest one alone."""
MAX_ERROR_RATE: Final = 0.01
"""Fraction of failed requests above which a benchmark says nothing about the model."""


class Span(Document):
    """A 95 % confidence interval, in the metric's unit."""

    low: Annotated[float, Field(ge=0)]
    high: Annotated[float, Field(ge=0)]


class Measurement(Document):
    """How a baseline was measured; a number without this is a guess."""

    method: Literal["bench", "live", "declared"]
    """`bench`: by `backstay bench`; `live`: from a serving revision's metrics; `declared`: written by hand."""
    samples: Annotated[int, Field(ge=1)] | None = None
    """Requests (or evaluation tokens) behind the number."""
    confidence: Span | None = None
    error_rate: Annotated[float, Field(ge=0, le=1)] | None = None
    """Fraction of the benchmark's requests that failed."""
    concurrency: Annotated[float, Field(gt=0)] | None = None
    """Requests under way at the same time, on average."""
    mix: str | None = None
    """The lengths that were asked for."""
    at: datetime | None = None
    runtime_version: str | None = None
    content: Digest | None = None
    """The files that were measured (see `content_of`): a number of other weights is not used."""
    profile: HardwareProfile | None = None
    """The hardware that it was measured on."""
    note: str | None = None

    @model_validator(mode="after")
    def _measured_numbers_have_samples(self) -> "Measurement":
        if self.method != "declared" and self.samples is None:
            raise ValueError(f"samples: a baseline measured by {self.method!r} says how many samples it rests on")
        if self.method == "bench" and (self.samples or 0) < MIN_SAMPLES:
            raise ValueError(f"samples: {self.samples} are too few for a benchmark, it needs {MIN_SAMPLES}")
        if self.error_rate is not None and self.error_rate > MAX_ERROR_RATE:
            raise ValueError(f"errorRate: {self.error_rate:g} of the requests failed, at most {MAX_ERROR_RATE:g} may")
        return self

    def refusal(self, content: str, profile: HardwareProfile, runtime_version: str | None) -> str | None:
        """Why the number must not be used for these files on this hardware and runtime, or None.

        What was not recorded is not compared: a declared number speaks of whatever its writer says.
        """
        if self.content not in (None, content):
            return "was measured on other files"
        if self.profile not in (None, profile):
            return "was measured on other hardware"
        if self.runtime_version is not None and runtime_version not in (None, self.runtime_version):
            return f"was measured with runtime {self.runtime_version}, this is {runtime_version}"
        return None


class _File(Protocol):
    @property
    def path(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def sha256(self) -> str: ...


def content_of(files: Iterable[_File]) -> str:
    """The digest of a model's files alone: it stays the same when only baselines change, unlike the model's digest."""
    listed = sorted([file.path, file.size, file.sha256] for file in files)
    return PREFIX + hashlib.sha256(json.dumps(listed, ensure_ascii=False).encode()).hexdigest()
