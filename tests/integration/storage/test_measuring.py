"""From a push over a benchmark to a resource: a real runtime answers, and its figures end in the resource's limits."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from backstay_cli.bench import local
from backstay_contract.measurement import MIN_SAMPLES

from tests.unit.runtime import tiny

from .processes import Backstay, Pod
from .server import Server

CONFIG = tiny.CONFIG | {"model_type": "llama"}
QUICK = ("--step-seconds", "0.3", "--sizes", "1,2,4", "--think", "0-0", "--requests", str(MIN_SAMPLES + 20))


@pytest.fixture
def uri(bucket: str) -> str:
    return f"s3://{bucket}/m/1"


@pytest.fixture
def pulled(storage: Server, backstay: Backstay, pod: Pod, uri: str, tmp_path: Path) -> Path:
    """A model that was pushed and pulled: a folder with its manifest."""
    tiny.write(tmp_path / "tiny", config=CONFIG)
    (tmp_path / "texts").write_text("hello world\nabc abc\n")
    digest = backstay.pushed(tmp_path / "tiny", uri)
    assert pod.pull(digest).code == 0
    return pod.model(digest)


@pytest.fixture
def url(pulled: Path) -> Iterator[str]:
    """Where the pulled model answers."""
    with local.runtime(pulled) as found:
        yield found


def test_a_benchmark_becomes_a_manifest_whose_numbers_a_resource_is_judged_by(
    backstay: Backstay, url: str, uri: str, bucket: str, tmp_path: Path
) -> None:
    measured, evaluated = f"s3://{bucket}/m/1-measured", f"s3://{bucket}/m/1-evaluated"
    ended = backstay.run("bench", uri, "--url", url, "--to", measured, *QUICK, "-o", "json")
    assert ended.code == 0, ended.err
    said = json.loads(ended.out)
    assert said["knee"] in (1, 2, 4)
    one = said["baselines"]["p99LatencyMs"]
    assert one["measured"]["method"] == "bench"
    assert one["measured"]["samples"] >= MIN_SAMPLES
    assert one["measured"]["runtimeVersion"]
    assert backstay.run("verify", measured, "--sha256", said["digest"], "--read").code == 0

    shown = json.loads(backstay.run("show", measured, "-o", "json").out)
    assert shown["manifest"]["baselines"]["p99LatencyMs"] == one
    options = ("--name", "chat", "--storage-endpoint", "http://minio:9000", "-o", "json")
    resource = json.loads(backstay.run("render", measured, "--sha256", said["digest"], *options).out)
    assert "baselines" not in resource["spec"]

    texts = ("--texts", tmp_path / "texts", "--to", evaluated)
    ended = backstay.run("eval", uri, "--url", url, *texts, "-o", "json")
    assert ended.code == 0, ended.err
    found = json.loads(ended.out)
    assert found["perplexity"] > 1
    recorded = json.loads(backstay.run("show", evaluated, "-o", "json").out)["manifest"]["evaluation"]
    assert recorded == found["items"]


@pytest.mark.case("T42")
def test_numbers_of_another_model_are_refused_and_nothing_is_published(
    backstay: Backstay, url: str, bucket: str, tmp_path: Path
) -> None:
    tiny.write(tmp_path / "other", tiny.tensors(seed=2), CONFIG)
    other, target = f"s3://{bucket}/other/1", f"s3://{bucket}/other/1-measured"
    backstay.pushed(tmp_path / "other", other)
    ended = backstay.run("bench", other, "--url", url, "--to", target, *QUICK)
    assert ended.code == 4
    assert backstay.run("show", target).code == 5
