"""A folder's manifest: same folder, same digest; and what its options say."""

import json
from pathlib import Path

import pytest
from backstay_cli.errors import CliError, Exit
from backstay_cli.model import qualification
from backstay_cli.model.architecture import architecture
from backstay_cli.model.describe import Description, Qualification, checked_listing, describe
from backstay_contract import manifest as manifests
from backstay_contract.metric import MetricName
from hypothesis import given
from hypothesis import strategies as st

CONFIG = {"model_type": "llama", "max_position_embeddings": 2048}
TENSORS = {"w": {"dtype": "BF16", "shape": [3, 4], "data_offsets": [0, 24]}}


def write_model(folder: Path, config: dict[str, object] = CONFIG, tensors: dict[str, object] = TENSORS) -> Path:  # type: ignore[assignment]
    folder.mkdir()
    header = json.dumps(tensors).encode()
    (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(24))
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def described(folder: Path, version: str = "1") -> Description:
    return describe(folder, checked_listing(folder, ()), "m", version, Qualification(), lambda _: None)


def test_a_manifest_lists_sizes_digests_and_what_the_model_is(tmp_path: Path) -> None:
    manifest = described(write_model(tmp_path / "m")).manifest
    assert [file.path for file in manifest.files] == ["config.json", "model.safetensors"]
    found = manifest.architecture
    assert (found.family, found.parameters, found.dtype, found.max_model_len) == ("llama", 12, "bfloat16", 2048)


def test_the_same_folder_has_the_same_digest_and_a_changed_one_another(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "m")
    first = described(folder)
    assert described(folder).digest == first.digest == manifests.digest_of(first.data)
    (folder / "config.json").write_text(json.dumps(CONFIG) + " ")
    assert described(folder).digest != first.digest


def test_all_bytes_are_told_to_the_progress(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "m")
    told: list[int] = []
    describe(folder, checked_listing(folder, ()), "m", "1", Qualification(), told.append)
    assert sum(told) == sum(path.stat().st_size for path in folder.iterdir())


def test_a_version_that_cannot_be_one_names_its_field(tmp_path: Path) -> None:
    with pytest.raises(CliError, match="version") as caught:
        described(write_model(tmp_path / "m"), version="a b")
    assert caught.value.code is Exit.REFUSED


def test_a_folder_without_config_or_weights_says_what_is_missing(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "m")
    (folder / "model.safetensors").unlink()
    with pytest.raises(CliError, match=r"no \.safetensors"):
        described(folder)
    (folder / "config.json").unlink()
    (folder / "x.txt").write_text("x")
    with pytest.raises(CliError, match=r"no config\.json"):
        described(folder)


def test_another_family_than_the_runtime_knows_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(CliError, match="gpt2"):
        described(write_model(tmp_path / "m", {"model_type": "gpt2"}))


def test_weights_of_a_type_that_cannot_be_served_are_refused() -> None:
    with pytest.raises(CliError, match="I8"):
        architecture(CONFIG, [{"w": {"dtype": "I8", "shape": [2]}}])


def test_the_type_of_most_weights_is_the_models() -> None:
    weights = [{"a": {"dtype": "F32", "shape": [2]}, "b": {"dtype": "F16", "shape": [3, 3]}}]
    assert architecture(CONFIG, weights).dtype == "float16"


@pytest.mark.parametrize(
    "text",
    [
        "gpu=NVIDIA-H100-80GB-HBM3,count=1,minMemoryGiB=70,driver=>=550",
        '{"gpu": "NVIDIA-H100-80GB-HBM3", "count": 1, "minMemoryGiB": 70, "driver": ">=550"}',
        "gpu: NVIDIA-H100-80GB-HBM3\ncount: 1\nminMemoryGiB: 70\ndriver: '>=550'\n",
    ],
)
def test_a_hardware_profile_can_be_written_in_three_forms(text: str) -> None:
    found = qualification.hardware_profile(text)
    assert found.to_json() == {
        "gpu": "NVIDIA-H100-80GB-HBM3",
        "count": 1,
        "minMemoryGiB": 70,
        "driver": ">=550",
    }


@pytest.mark.parametrize("text", ["colour=blue", "gpu", "gpu=", "count=many", "[]", "count=1,count=2", "{"])
def test_a_wrong_hardware_profile_is_wrong_usage(text: str) -> None:
    with pytest.raises(CliError, match="--hardware-profile") as caught:
        qualification.hardware_profile(text)
    assert caught.value.code is Exit.USAGE


def test_baselines_have_their_metrics_units_and_tolerances() -> None:
    found = qualification.baselines(["p99LatencyMs=420", "errorRate=0.001"], ["p99LatencyMs=1.5"])
    latency, errors = found[MetricName.P99_LATENCY], found[MetricName.ERROR_RATE]
    assert (latency.value, latency.unit, latency.tolerance) == (420, "ms", 1.5)
    assert (errors.unit, errors.tolerance, errors.measured.method) == ("fraction", 2.0, "declared")


def test_a_perplexity_tolerates_less_than_the_others_unless_it_is_said() -> None:
    recorded = [qualification.baselines(["perplexity=14"], given) for given in ([], ["perplexity=1.5"])]
    assert [found[MetricName.PERPLEXITY].tolerance for found in recorded] == [1.1, 1.5]


@pytest.mark.parametrize(
    ("values", "tolerances", "word"),
    [
        (["latency=1"], [], "p99LatencyMs"),
        (["p99LatencyMs"], [], "NAME=VALUE"),
        (["p99LatencyMs=fast"], [], "no number"),
        (["p99LatencyMs=1", "p99LatencyMs=2"], [], "twice"),
        (["p99LatencyMs=-1"], [], "greater"),
        (["p99LatencyMs=nan"], [], "finite"),
        (["p99LatencyMs=1"], ["errorRate=2"], "--baseline errorRate"),
        (["p99LatencyMs=1"], ["p99LatencyMs=0.5"], "greater"),
    ],
)
def test_a_wrong_baseline_says_what_is_wrong(values: list[str], tolerances: list[str], word: str) -> None:
    with pytest.raises(CliError, match=word) as caught:
        qualification.baselines(values, tolerances)
    assert caught.value.code is Exit.USAGE


@given(st.dictionaries(st.sampled_from(sorted(MetricName)), st.floats(0.001, 1e6), max_size=6))
def test_any_baselines_come_back_as_they_were_given(given_: dict[MetricName, float]) -> None:
    found = qualification.baselines([f"{name}={value!r}" for name, value in given_.items()], [])
    assert {name: one.value for name, one in found.items()} == given_


def test_an_evaluation_set_is_a_json_object_a_line() -> None:
    lines = ['{"text": "a b", "nll": 3.5, "tokens": 2}', "", '{"text": "c", "nll": 1, "tokens": 1}']
    assert [item.tokens for item in qualification.evaluation(lines, "eval.jsonl")] == [2, 1]


@pytest.mark.parametrize(
    ("lines", "word"),
    [([], "no items"), (["{}"], "line 1"), (['{"text": "a", "nll": 1, "tokens": 1}', "x"], "line 2")],
)
def test_a_wrong_evaluation_set_names_the_line(lines: list[str], word: str) -> None:
    with pytest.raises(CliError, match=word):
        qualification.evaluation(lines, "eval.jsonl")
