"""The manifest: what a model consists of, and its digest."""

import hashlib
import json
import math
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any

import pytest
from backstay_contract import manifest
from backstay_contract.manifest import (
    Architecture,
    EvaluationItem,
    Manifest,
    ManifestError,
    ModelFile,
    RecordedBaseline,
    check_path,
)
from backstay_contract.measurement import Measurement
from backstay_contract.metric import KINDS, PERPLEXITY_TOLERANCE, MetricName
from backstay_contract.profile import HardwareProfile
from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic import ValidationError

HEX = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

parts = st.text("abcdefgh0123._-", min_size=1, max_size=12).filter(lambda part: part.strip("."))
paths = st.lists(parts, min_size=1, max_size=3).map("/".join)


def is_taken(path: str) -> bool:
    try:
        check_path(path)
    except ValueError:
        return False
    return True


good_paths = paths.filter(is_taken)
files = st.builds(
    ModelFile,
    path=good_paths,
    size=st.integers(0, 2**40),
    sha256=st.text("0123456789abcdef", min_size=64, max_size=64),
)


def small(**changes: Any) -> dict[str, Any]:
    """The JSON of the smallest manifest, with changes."""
    return {
        "schemaVersion": 1,
        "name": "chat",
        "version": "1.0.0",
        "files": [{"path": "model.safetensors", "size": 5, "sha256": HEX}],
        "architecture": {"family": "llama"},
        **changes,
    }


def read(**changes: Any) -> Manifest:
    return manifest.parse(json.dumps(small(**changes)).encode())


def refusal(**changes: Any) -> str:
    with pytest.raises(ManifestError) as caught:
        read(**changes)
    return str(caught.value)


def baseline(**changes: Any) -> dict[str, Any]:
    return {"value": 420, "unit": "ms", "measured": {"method": "bench", "samples": 900}, **changes}


FULL = Manifest(
    name="smollm2-135m-instruct",
    version="1.2.0+fp16",
    files=(ModelFile(path="weights/model.safetensors", size=10, sha256=HEX), ModelFile(path="a", size=2, sha256=HEX)),
    architecture=Architecture(family="llama", parameters=135_000_000, dtype="float16", max_model_len=8192),
    hardware_profile=HardwareProfile(gpu="NVIDIA-H100", count=1, min_memory_gi_b=70),
    baselines={
        MetricName.P99_LATENCY: RecordedBaseline(
            value=420,
            unit="ms",
            measured=Measurement(method="bench", samples=900, concurrency=4, at=datetime(2026, 1, 2, tzinfo=UTC)),
        ),
        MetricName.TOKENS_PER_SECOND: RecordedBaseline(
            value=60, unit="tokens/s", tolerance=1.5, measured=Measurement(method="declared", note="by hand")
        ),
    },
    evaluation=(EvaluationItem(text="Grüße, мир", nll=12.5, tokens=7),),
    dependencies={"torch": "2.9.0"},
    quantization="none",
)


class TestBytes:
    def test_a_manifest_survives_its_way_through_bytes(self) -> None:
        assert manifest.parse(manifest.dump(FULL)) == FULL

    def test_equal_manifests_have_equal_bytes_and_so_one_digest(self) -> None:
        again = manifest.parse(json.dumps(FULL.to_json(), indent=4).encode())

        assert manifest.dump(again) == manifest.dump(FULL)

    @given(st.lists(files, min_size=1, max_size=4, unique_by=lambda file: file.path.casefold().split("/")[0]))
    def test_dumping_what_was_parsed_changes_no_byte(self, some: list[ModelFile]) -> None:
        written = manifest.dump(FULL.with_(files=tuple(some)))

        assert manifest.dump(manifest.parse(written)) == written

    def test_the_digest_is_of_the_exact_bytes(self) -> None:
        data = manifest.dump(FULL)

        assert manifest.digest_of(data) == "sha256:" + hashlib.sha256(data).hexdigest()
        assert manifest.digest_of(data + b"\n") != manifest.digest_of(data)

    def test_the_bytes_are_utf_8_and_end_in_a_newline(self) -> None:
        data = manifest.dump(FULL)

        assert "Grüße, мир".encode() in data
        assert data.endswith(b"}\n")

    def test_the_size_is_that_of_all_files(self) -> None:
        assert FULL.size == 12

    def test_limits_are_baseline_times_tolerance(self) -> None:
        limits = FULL.with_(evaluation=()).limits()

        assert limits == {MetricName.P99_LATENCY: 840.0, MetricName.TOKENS_PER_SECOND: 40.0}


class TestPaths:
    @pytest.mark.parametrize(
        "path",
        ["model.safetensors", "a/b/c.json", "weights/model-00001-of-00002.safetensors", "…/ü", "a b", "-", "..a"],
    )
    def test_an_ordinary_path_is_taken_as_it_is(self, path: str) -> None:
        assert check_path(path) == path

    @pytest.mark.parametrize(
        "path",
        [
            "", "/", "/etc/passwd", ".", "..", "../x", "a/../x", "a/..", "./a", "a/.", "a/./b", "a//b", "a/", "//a",
            "a\\b", "..\\x", "a\x00b", "a\nb", "\x7f", "a" * 513, "ü" * 257, "a/" + "b" * 256,
            "manifest.json", "MANIFEST.JSON", "manifest.json/a",
        ],
    )  # fmt: skip
    def test_a_path_that_could_leave_the_folder_or_be_no_file_is_refused(self, path: str) -> None:
        with pytest.raises(ValueError, match="file path"):
            check_path(path)

    @pytest.mark.parametrize("suffix", manifest.FORBIDDEN_SUFFIXES)
    def test_a_format_that_can_carry_code_is_refused_in_any_case(self, suffix: str) -> None:
        for path in (f"model{suffix}", f"sub/MODEL{suffix.upper()}"):
            with pytest.raises(ValueError, match="convert to safetensors"):
                check_path(path)

    @given(st.text(max_size=40))
    def test_no_path_that_is_taken_leads_out_of_the_folder(self, path: str) -> None:
        assume(is_taken(path))

        joined = PurePosixPath("/models/x") / path
        assert joined.is_relative_to("/models/x")
        assert ".." not in joined.parts
        assert joined != PurePosixPath("/models/x")

    @pytest.mark.parametrize(
        ("one", "other", "said"),
        [
            ("a", "a", "listed twice"),
            ("Model.json", "model.JSON", "listed twice"),
            ("a", "a/b", "'a' is a file and cannot be a folder too"),
            ("x/y/z", "X", "is a file and cannot be a folder too"),
        ],
    )
    def test_two_files_that_would_fall_on_each_other_are_refused(self, one: str, other: str, said: str) -> None:
        both = [{"path": path, "size": 1, "sha256": HEX} for path in (one, other)]

        assert said in refusal(files=both)


class TestFields:
    @pytest.mark.parametrize(
        ("changes", "said"),
        [
            ({"schemaVersion": 2}, "schemaVersion"),
            ({"name": "Chat"}, "name"),
            ({"name": "a/b"}, "name"),
            ({"version": ""}, "version"),
            ({"version": "1.0 "}, "version"),
            ({"files": []}, "files"),
            ({"files": [{"path": "a", "size": -1, "sha256": HEX}]}, "files.0.size"),
            ({"files": [{"path": "a", "size": 1.5, "sha256": HEX}]}, "files.0.size"),
            ({"files": [{"path": "a", "size": 1, "sha256": "x"}]}, "files.0.sha256"),
            ({"files": [{"path": "../a", "size": 1, "sha256": HEX}]}, "files.0.path"),
            ({"architecture": {"family": "gpt2"}}, "architecture.family"),
            ({"architecture": {"family": "llama", "layers": 3}}, "architecture.layers"),
            ({"evaluation": [{"text": "a", "nll": 1.0, "tokens": 0}]}, "evaluation.0.tokens"),
            ({"evaluation": [{"text": "a", "nll": -1.0, "tokens": 1}]}, "evaluation.0.nll"),
            ({"evaluation": [{"text": "a", "nll": 900.0, "tokens": 8}]}, "900 over 8 tokens is no loss"),
            ({"hardwareProfile": {"gpu": "none", "count": 2}}, "hardwareProfile"),
            ({"owner": "me"}, "owner"),
            ({"baselines": {"p98LatencyMs": baseline()}}, "p98LatencyMs"),
            ({"baselines": {"p99LatencyMs": baseline(unit="s")}}, "'s' is not its unit; write 'ms'"),
            ({"baselines": {"errorRate": baseline(unit="%", value=1)}}, "'%' is not its unit; write 'fraction'"),
            ({"baselines": {"p99LatencyMs": baseline(value=0)}}, "0 ms cannot have been measured"),
            ({"baselines": {"p99LatencyMs": baseline(value=-1)}}, "baselines.p99LatencyMs.value"),
            ({"baselines": {"p99LatencyMs": baseline(tolerance=0.5)}}, "baselines.p99LatencyMs.tolerance"),
            ({"baselines": {"p99LatencyMs": baseline(measured={"method": "guess"})}}, "measured.method"),
            ({"baselines": {"p99LatencyMs": baseline(measured={"method": "bench"})}}, "how many samples it rests on"),
            ({"baselines": {"p99LatencyMs": {"value": 1, "unit": "ms"}}}, "baselines.p99LatencyMs.measured"),
        ],
    )
    def test_a_bad_field_is_refused_with_its_name(self, changes: dict[str, Any], said: str) -> None:
        assert said in refusal(**changes)

    @pytest.mark.parametrize("metric", list(MetricName))
    def test_each_metric_takes_its_own_unit(self, metric: MetricName) -> None:
        found = read(baselines={metric.value: baseline(value=0.5, unit=KINDS[metric].unit)})

        assert found.baselines[metric].value == 0.5

    def test_an_error_rate_of_zero_can_have_been_measured(self) -> None:
        assert read(baselines={"errorRate": baseline(value=0, unit="fraction")}).baselines

    def test_a_number_written_by_hand_needs_no_samples(self) -> None:
        assert read(baselines={"p99LatencyMs": baseline(measured={"method": "declared"})}).baselines

    def test_all_bad_fields_are_named_at_once(self) -> None:
        said = refusal(name="A B", version="", owner="me")

        assert said.count("; ") == 2
        assert said.startswith("manifest.json: ")

    def test_the_given_value_stands_in_the_refusal(self) -> None:
        assert "(got 'Chat')" in refusal(name="Chat")

    def test_a_very_long_value_does_not_flood_the_refusal(self) -> None:
        assert len(refusal(name="x" * 100_000)) < 500


class TestDocuments:
    @pytest.mark.parametrize(
        "data",
        [b"", b"{", b"null", b"[]", b'"chat"', b"\xff\xfe", b"{}", b'{"name": NaN}', b"<html>", b"\x00" * 10],
    )
    def test_what_is_no_manifest_is_refused_and_says_so(self, data: bytes) -> None:
        with pytest.raises(ManifestError, match=r"^manifest\.json: "):
            manifest.parse(data)

    @given(st.binary(max_size=200))
    def test_any_bytes_are_a_manifest_or_a_refusal(self, data: bytes) -> None:
        with pytest.raises(ManifestError):
            manifest.parse(data)

    def test_a_manifest_that_is_too_large_is_refused_before_it_is_parsed(self) -> None:
        with pytest.raises(ManifestError, match="more than the 4194304 that are read"):
            manifest.parse(b"[" * (manifest.MAX_BYTES + 1))

    def test_deep_nesting_is_a_refusal_and_no_crash(self) -> None:
        with pytest.raises(ManifestError):
            manifest.parse(b"[" * 1_000_000)

    @pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
    def test_a_number_that_is_none_is_no_baseline(self, number: str) -> None:
        text = json.dumps(small(baselines={"p99LatencyMs": baseline()})).replace("420", number)

        with pytest.raises(ManifestError, match=r"p99LatencyMs|json"):
            manifest.parse(text.encode())

    def test_a_manifest_cannot_be_changed_in_place(self) -> None:
        with pytest.raises(ValidationError, match="frozen"):
            FULL.name = "other"


class TestPerplexity:
    items = st.lists(
        st.integers(1, 4096).flatmap(
            lambda tokens: st.builds(
                EvaluationItem, text=st.just("a"), nll=st.floats(0, 10.0 * tokens), tokens=st.just(tokens)
            )
        ),
        min_size=1,
        max_size=8,
    )

    def test_without_a_set_there_is_no_recorded_perplexity_and_no_limit(self) -> None:
        bare = FULL.with_(evaluation=())

        assert bare.recorded_perplexity is None
        assert MetricName.PERPLEXITY not in bare.limits()

    @given(items)
    def test_a_set_alone_is_a_baseline_with_the_usual_tolerance(self, found: list[EvaluationItem]) -> None:
        with_set = FULL.with_(evaluation=tuple(found))
        recorded = math.exp(sum(item.nll for item in found) / sum(item.tokens for item in found))

        assert with_set.recorded_perplexity == pytest.approx(recorded)
        assert with_set.limits()[MetricName.PERPLEXITY] == pytest.approx(recorded * PERPLEXITY_TOLERANCE)

    def test_a_recorded_baseline_beside_the_set_gives_the_limit(self) -> None:
        recorded = RecordedBaseline(value=20, unit="perplexity", tolerance=1.5, measured=Measurement(method="declared"))

        assert FULL.with_(baselines={MetricName.PERPLEXITY: recorded}).limits() == {MetricName.PERPLEXITY: 30.0}
