"""Numbers that were measured: worthless ones cannot be recorded, and those of something else are not used."""

from typing import Any

import pytest
from backstay_contract.manifest import Architecture, Manifest, ModelFile
from backstay_contract.measurement import MAX_ERROR_RATE, MIN_SAMPLES, Measurement, content_of
from backstay_contract.metric import MetricName
from backstay_contract.profile import HardwareProfile
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

FILES = (ModelFile(path="a", size=1, sha256="a" * 64), ModelFile(path="b", size=2, sha256="b" * 64))
CONTENT = content_of(FILES)
L4 = HardwareProfile(gpu="NVIDIA-L4", count=1)

pytestmark = pytest.mark.case("T42")


def measured(**fields: Any) -> Measurement:
    return Measurement.model_validate({"method": "bench", "samples": MIN_SAMPLES} | fields)


def manifest(measurement: Measurement, **fields: Any) -> Manifest:
    baseline = {"value": 420, "unit": "ms", "measured": measurement}
    values = {"name": "m", "version": "1", "files": FILES, "architecture": Architecture(family="llama")}
    return Manifest.model_validate(values | {"baselines": {"p99LatencyMs": baseline}} | fields)


@given(st.integers(1, MIN_SAMPLES - 1))
def test_a_benchmark_of_too_few_requests_cannot_be_recorded(samples: int) -> None:
    with pytest.raises(ValidationError, match=f"it needs {MIN_SAMPLES}"):
        measured(samples=samples)


@given(st.floats(MAX_ERROR_RATE, 1, exclude_min=True))
def test_a_benchmark_that_mostly_failed_cannot_be_recorded(error_rate: float) -> None:
    with pytest.raises(ValidationError, match="errorRate"):
        measured(error_rate=error_rate)


def test_a_number_of_these_files_on_this_hardware_is_recorded_and_used() -> None:
    one = manifest(measured(content=CONTENT, profile=L4, runtime_version="1.0"), hardware_profile=L4)
    assert one.content == CONTENT
    assert one.limits("1.0") == {MetricName.P99_LATENCY: 840.0}
    assert one.unusable("1.0") == {}


@pytest.mark.parametrize(
    ("fields", "word"),
    [({"content": "sha256:" + "0" * 64}, "other files"), ({"profile": L4}, "other hardware")],
)
def test_a_number_of_other_files_or_hardware_cannot_be_in_the_manifest(fields: dict[str, Any], word: str) -> None:
    with pytest.raises(ValidationError, match=word):
        manifest(measured(**fields))


def test_a_number_of_another_runtime_is_not_used_and_that_is_said() -> None:
    one = manifest(measured(runtime_version="1.0"))
    assert one.limits("1.1") == {}
    assert one.unusable("1.1") == {MetricName.P99_LATENCY: "was measured with runtime 1.0, this is 1.1"}
    assert one.limits() == {MetricName.P99_LATENCY: 840.0}


def test_a_declared_number_is_used_by_every_runtime() -> None:
    assert manifest(Measurement(method="declared")).limits("7") == {MetricName.P99_LATENCY: 840.0}


@given(st.permutations(FILES))
def test_the_files_digest_does_not_depend_on_their_order(files: list[ModelFile]) -> None:
    assert content_of(files) == CONTENT


@given(st.sampled_from([{"path": "c"}, {"size": 3}, {"sha256": "c" * 64}]))
def test_any_other_file_has_another_digest(change: dict[str, Any]) -> None:
    assert content_of((FILES[0].with_(**change), FILES[1])) != CONTENT
