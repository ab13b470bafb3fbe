"""Pushes to a real MinIO: nothing half-visible, nothing sent twice, nothing replaced."""

import io
import json
import signal
import time
from pathlib import Path

import pytest
from backstay_contract import manifest as manifests
from backstay_contract.names import MANIFEST_FILE, Env

from .models import MIB, write_model
from .processes import Backstay
from .proxy import Action, Proxy
from .server import Server

WEIGHTS = "model.safetensors"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_model(tmp_path / "model")


@pytest.fixture
def uri(bucket: str) -> str:
    return f"s3://{bucket}/m/1"


def objects(storage: Server, bucket: str) -> set[str]:
    return {str(one.object_name) for one in storage.client().list_objects(bucket, recursive=True)}


def test_a_push_prints_the_digest_of_the_manifest_that_is_there(
    backstay: Backstay, storage: Server, bucket: str, folder: Path, uri: str
) -> None:
    ended = backstay.push(folder, uri, "--baseline", "p99LatencyMs=420", "--tolerance", "p99LatencyMs=1.5")
    data = storage.client().get_object(bucket, f"m/1/{MANIFEST_FILE}").read()
    assert ended.out.strip() == manifests.digest_of(data)
    manifest = manifests.parse(data)
    assert {file.path for file in manifest.files} == {"config.json", "tokenizer.json", WEIGHTS}
    assert manifest.limits() == {"p99LatencyMs": 630.0}
    assert objects(storage, bucket) == {
        f"m/1/{path}" for path in ("config.json", "tokenizer.json", WEIGHTS, MANIFEST_FILE)
    }


def test_the_same_push_again_sends_nothing_and_prints_the_same_digest(
    backstay: Backstay, folder: Path, uri: str
) -> None:
    first = backstay.pushed(folder, uri)
    again = json.loads(backstay.push(folder, uri, "-o", "json").out)
    assert (again["digest"], again["sent"]) == (first, [])


def test_a_published_model_is_never_replaced(
    backstay: Backstay, storage: Server, bucket: str, folder: Path, uri: str, tmp_path: Path
) -> None:
    first = backstay.pushed(folder, uri)
    other = write_model(tmp_path / "other", seed=2)
    ended = backstay.push(other, uri)
    assert ended.code == 3
    assert first in ended.err
    assert backstay.run("verify", uri, "--sha256", first).code == 0


def test_a_dry_run_sends_nothing_and_says_what_a_push_would(
    backstay: Backstay, storage: Server, bucket: str, folder: Path, uri: str
) -> None:
    said = json.loads(backstay.push(folder, uri, "--dry-run", "-o", "json").out)
    assert objects(storage, bucket) == set()
    assert sorted(said["sent"]) == ["config.json", WEIGHTS, "tokenizer.json"]
    assert said["digest"] == backstay.pushed(folder, uri)


def test_a_killed_push_shows_no_model_and_the_next_sends_only_the_rest(
    backstay: Backstay, storage: Server, bucket: str, uri: str, proxy: Proxy, tmp_path: Path
) -> None:
    folder = write_model(tmp_path / "large", 96 * MIB)
    proxy.rule = lambda method, path, headers: Action(bytes_per_second=20e6) if method == "PUT" else None
    process = backstay.start(
        "push", folder, uri, "--name", "m", "--version", "1", **{Env.STORAGE_ENDPOINT: proxy.endpoint}
    )
    deadline = time.monotonic() + 60
    while proxy.bytes_in < 60 * MIB and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=10)
    assert f"m/1/{MANIFEST_FILE}" not in objects(storage, bucket)
    time.sleep(1.5)  # what the proxy still holds arrives or is lost
    proxy.rule = lambda method, path, headers: None
    before = proxy.bytes_in
    ended = backstay.push(folder, uri, **{Env.STORAGE_ENDPOINT: proxy.endpoint})
    assert ended.code == 0
    assert proxy.bytes_in - before < 80 * MIB
    assert backstay.run("verify", uri, "--sha256", ended.out.strip()).code == 0


def test_an_unfinished_upload_of_other_bytes_does_not_leak_into_this_one(
    backstay: Backstay, storage: Server, bucket: str, uri: str, tmp_path: Path
) -> None:
    folder = write_model(tmp_path / "large", 40 * MIB)
    client = storage.client()
    upload = client._create_multipart_upload(bucket, f"m/1/{WEIGHTS}", {"x-amz-meta-backstay-sha256": "0" * 64})
    client._upload_part(bucket, f"m/1/{WEIGHTS}", bytes(16 * MIB), None, upload, 1)
    client._upload_part(bucket, f"m/1/{WEIGHTS}", b"more", None, upload, 9)
    digest = backstay.pushed(folder, uri)
    assert backstay.run("verify", uri, "--sha256", digest).code == 0
    assert json.loads(backstay.push(folder, uri, "-o", "json").out)["sent"] == []


def test_two_pushes_of_different_models_to_one_uri_publish_at_most_one_and_do_not_spoil_it(
    backstay: Backstay, uri: str, proxy: Proxy, tmp_path: Path
) -> None:
    proxy.rule = lambda method, path, headers: Action(bytes_per_second=20e6) if method == "PUT" else None
    folders = [write_model(tmp_path / f"model-{seed}", 20 * MIB, seed=seed) for seed in (1, 2)]
    arguments = ("--name", "m", "--version", "1")
    processes = [
        backstay.start("push", folder, uri, *arguments, **{Env.STORAGE_ENDPOINT: proxy.endpoint}) for folder in folders
    ]
    ended = [(*process.communicate(timeout=60), process.returncode) for process in processes]
    assert sorted(code for _, _, code in ended) in ([0, 3], [3, 3]), ended
    for out, _, code in ended:
        if code == 0:
            assert backstay.run("verify", uri, "--sha256", out.strip()).code == 0


def test_what_a_cut_off_push_left_is_replaced_only_when_that_is_asked_for(
    backstay: Backstay, storage: Server, bucket: str, folder: Path, uri: str
) -> None:
    storage.client().put_object(bucket, "m/1/tokenizer.json", io.BytesIO(b"old"), 3)
    ended = backstay.push(folder, uri)
    assert ended.code == 3
    assert "tokenizer.json" in ended.err
    assert objects(storage, bucket) == {"m/1/tokenizer.json"}
    assert backstay.run("verify", uri, "--sha256", backstay.pushed(folder, uri, "--take-over")).code == 0


def test_a_file_that_was_lost_from_a_published_model_is_sent_again(
    backstay: Backstay, storage: Server, bucket: str, folder: Path, uri: str
) -> None:
    digest = backstay.pushed(folder, uri)
    storage.client().remove_object(bucket, f"m/1/{WEIGHTS}")
    again = json.loads(backstay.push(folder, uri, "-o", "json").out)
    assert (again["digest"], again["sent"]) == (digest, [WEIGHTS])
    assert backstay.run("verify", uri, "--sha256", digest).code == 0


def test_a_pickle_is_refused_and_nothing_is_sent(
    backstay: Backstay, storage: Server, bucket: str, folder: Path, uri: str
) -> None:
    (folder / "pytorch_model.bin").write_bytes(b"\x80\x04\x95")
    ended = backstay.push(folder, uri)
    assert (ended.code, objects(storage, bucket)) == (3, set())
    assert "pytorch_model.bin" in ended.err
    assert backstay.push(folder, uri, "--exclude", "*.bin").code == 0


def test_a_bucket_is_made_only_when_that_is_asked_for(backstay: Backstay, folder: Path, bucket: str) -> None:
    uri = f"s3://new-{bucket}/m/1"
    ended = backstay.push(folder, uri)
    assert ended.code == 5
    assert "NoSuchBucket" in ended.err
    assert backstay.push(folder, uri, "--create-bucket").code == 0


def test_wrong_keys_are_forbidden_and_a_wrong_endpoint_is_unreachable(
    backstay: Backstay, folder: Path, uri: str
) -> None:
    assert backstay.push(folder, uri, BACKSTAY_SECRET_KEY="wrong-key-of-a-test").code == 6
    assert backstay.push(folder, uri, **{Env.STORAGE_ENDPOINT: "http://127.0.0.1:9"}).code == 7


def test_verify_finds_a_flipped_byte_and_quick_finds_what_is_recorded(
    backstay: Backstay, storage: Server, bucket: str, folder: Path, uri: str
) -> None:
    digest = backstay.pushed(folder, uri)
    data = bytearray((folder / WEIGHTS).read_bytes())
    data[MIB] ^= 1
    recorded = storage.client().stat_object(bucket, f"m/1/{WEIGHTS}").metadata
    assert recorded is not None
    forged: dict[str, str | list[str] | tuple[str]] = {
        "x-amz-meta-backstay-sha256": recorded["x-amz-meta-backstay-sha256"]
    }
    storage.client().put_object(bucket, f"m/1/{WEIGHTS}", io.BytesIO(bytes(data)), len(data), metadata=forged)
    assert backstay.run("verify", uri, "--quick").code == 0
    ended = backstay.run("verify", uri, "-o", "json", "--sha256", digest)
    assert ended.code == 4
    assert [one["path"] for one in json.loads(ended.out)["findings"]] == [WEIGHTS]
    storage.client().put_object(bucket, f"m/1/{WEIGHTS}", io.BytesIO(bytes(data)), len(data))
    assert backstay.run("verify", uri, "--quick").code == 4


def test_verify_of_a_uri_without_a_model_is_not_found(backstay: Backstay, uri: str) -> None:
    assert backstay.run("verify", uri).code == 5


def test_render_prints_a_resource_for_the_pushed_model_and_refuses_another_digest(
    backstay: Backstay, folder: Path, uri: str
) -> None:
    digest = backstay.pushed(folder, uri, "--baseline", "p99LatencyMs=420")
    options = (
        "--name",
        "chat",
        "--storage-endpoint",
        "http://minio.minio.svc:9000",
        "--secret",
        "reader",
        "-o",
        "json",
    )
    resource = json.loads(backstay.run("render", uri, "--sha256", digest, *options).out)
    assert resource["spec"]["model"]["sha256"] == digest
    assert "baselines" not in resource["spec"]
    assert backstay.run("render", uri, "--sha256", "0" * 64, *options).code == 4
