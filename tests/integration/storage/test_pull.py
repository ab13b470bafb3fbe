"""Pulls from a real MinIO: the whole model or nothing, and a reason that tells failures apart."""

import gzip
import io
import json
from pathlib import Path

import pytest
from backstay_contract.names import MANIFEST_FILE, Env, Key
from backstay_contract.termination import GaveUp
from backstay_runtime.pull.settings import ALLOW_LOOPBACK

from .models import MIB, publish, write_model
from .processes import Pod
from .proxy import Action, Proxy
from .server import Server

WEIGHTS = "model.safetensors"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_model(tmp_path / "model")


@pytest.fixture
def digest(storage: Server, folder: Path, pod: Pod) -> str:
    """The digest of the model that was pushed for the pod."""
    return publish(storage, folder, pod.environment[Env.MODEL_URI])


def put(storage: Server, bucket: str, path: str, data: bytes, **headers: str | list[str] | tuple[str]) -> None:
    storage.client().put_object(bucket, f"m/1/{path}", io.BytesIO(data), len(data), metadata=headers or None)


def assert_refused(pod: Pod, digest: str, reason: GaveUp, code: int) -> None:
    pulled = pod.pull(digest)
    assert pulled.termination is not None, pulled.log
    assert (pulled.termination.reason, pulled.code) == (reason, code), pulled.termination.message
    assert pod.visible() == []


def test_a_pushed_model_is_pulled_whole(pod: Pod, folder: Path, digest: str) -> None:
    pulled = pod.pull(digest)
    assert pulled.code == 0
    assert pulled.termination is None
    names = {path.name for path in pod.model(digest).iterdir()}
    assert names == {MANIFEST_FILE, "config.json", "tokenizer.json", WEIGHTS}
    assert (pod.model(digest) / WEIGHTS).read_bytes() == (folder / WEIGHTS).read_bytes()
    whole = pulled.said("model is whole")
    assert whole["fetched"] == whole["bytes"] == sum(path.stat().st_size for path in folder.iterdir())


def test_a_second_pod_fetches_nothing_and_needs_no_storage(pod: Pod, digest: str, proxy: Proxy) -> None:
    assert pod.pull(digest).code == 0
    again = pod.with_(**{Env.STORAGE_ENDPOINT: proxy.endpoint}).pull(digest)
    assert (again.code, proxy.requests) == (0, [])


@pytest.mark.case("T27")
def test_a_flipped_byte_in_an_object_is_a_mismatch_with_both_digests(
    pod: Pod, digest: str, storage: Server, bucket: str, folder: Path
) -> None:
    data = bytearray((folder / WEIGHTS).read_bytes())
    data[2 * MIB] ^= 1
    put(storage, bucket, WEIGHTS, bytes(data))
    pulled = pod.pull(digest)
    assert (pulled.code, pod.visible()) == (10, [])
    assert pulled.termination is not None
    assert pulled.termination.reason is GaveUp.DIGEST_MISMATCH
    assert pulled.termination.path == WEIGHTS
    assert pulled.termination.expected != pulled.termination.actual
    assert not list(pod.models.glob(".partial-*"))


@pytest.mark.case("T27")
def test_a_truncated_object_is_a_mismatch(pod: Pod, digest: str, storage: Server, bucket: str, folder: Path) -> None:
    put(storage, bucket, WEIGHTS, (folder / WEIGHTS).read_bytes()[:-1])
    assert_refused(pod, digest, GaveUp.DIGEST_MISMATCH, 10)


def test_a_longer_object_is_a_mismatch(pod: Pod, digest: str, storage: Server, bucket: str, folder: Path) -> None:
    put(storage, bucket, WEIGHTS, (folder / WEIGHTS).read_bytes() + b"\0")
    assert_refused(pod, digest, GaveUp.DIGEST_MISMATCH, 10)


@pytest.mark.usefixtures("digest")
def test_another_digest_than_the_manifests_is_a_mismatch(pod: Pod) -> None:
    assert_refused(pod, "sha256:" + "0" * 64, GaveUp.DIGEST_MISMATCH, 10)


def test_a_changed_manifest_is_a_mismatch(pod: Pod, digest: str, storage: Server, bucket: str) -> None:
    manifest = json.loads(storage.client().get_object(bucket, f"m/1/{MANIFEST_FILE}").read())
    manifest["baselines"] = {"p99LatencyMs": {"value": 9e5, "unit": "ms", "measured": {"method": "declared"}}}
    put(storage, bucket, MANIFEST_FILE, json.dumps(manifest).encode())
    assert_refused(pod, digest, GaveUp.DIGEST_MISMATCH, 10)


def test_an_object_that_is_missing_is_not_found(pod: Pod, digest: str, storage: Server, bucket: str) -> None:
    storage.client().remove_object(bucket, "m/1/tokenizer.json")
    assert_refused(pod, digest, GaveUp.MODEL_NOT_FOUND, 11)


def test_a_uri_without_a_model_is_not_found(pod: Pod, digest: str, bucket: str) -> None:
    assert_refused(pod.with_(**{Env.MODEL_URI: f"s3://{bucket}/m/2"}), digest, GaveUp.MODEL_NOT_FOUND, 11)


def test_a_bucket_that_is_missing_is_not_found(pod: Pod, digest: str) -> None:
    assert_refused(pod.with_(**{Env.MODEL_URI: "s3://no-such-bucket/m/1"}), digest, GaveUp.MODEL_NOT_FOUND, 11)


@pytest.mark.parametrize("key", [Key.ACCESS, Key.SECRET])
@pytest.mark.case("T32")
def test_a_wrong_key_is_rejected_credentials(pod: Pod, digest: str, key: str) -> None:
    (Path(pod.environment[Env.STORAGE_CREDENTIALS]) / key).write_text("wrong-key-of-a-test")
    assert_refused(pod, digest, GaveUp.CREDENTIALS_REJECTED, 12)


def test_reading_anonymously_what_is_not_public_is_rejected_credentials(pod: Pod, digest: str) -> None:
    assert_refused(pod.with_(**{Env.STORAGE_CREDENTIALS: ""}), digest, GaveUp.CREDENTIALS_REJECTED, 12)


@pytest.mark.case("T32")
def test_a_rotated_secret_is_used_by_the_next_pull(pod: Pod, digest: str) -> None:
    secret = Path(pod.environment[Env.STORAGE_CREDENTIALS]) / Key.SECRET
    right = secret.read_text()
    secret.write_text("old-key-of-a-test")
    assert pod.pull(digest).code == 12
    secret.write_text(right)
    assert pod.pull(digest).code == 0


@pytest.mark.case("T33")
def test_loopback_is_refused_unless_a_developer_allows_it(pod: Pod, digest: str) -> None:
    assert_refused(pod.with_(**{ALLOW_LOOPBACK: ""}), digest, GaveUp.ENDPOINT_REFUSED, 14)


@pytest.mark.case("T33")
def test_a_redirect_is_not_followed(pod: Pod, digest: str, proxy: Proxy) -> None:
    def rule(method: str, path: str, headers: dict[str, str]) -> Action | None:
        away = f"{proxy.endpoint}/elsewhere"
        return Action(status=307, headers={"Location": away}) if path.endswith(WEIGHTS) else None

    proxy.rule = rule
    assert_refused(pod.with_(**{Env.STORAGE_ENDPOINT: proxy.endpoint}), digest, GaveUp.ENDPOINT_REFUSED, 14)
    assert not [path for _, path in proxy.requests if "elsewhere" in path]


def test_hardware_that_the_model_was_not_qualified_on_is_a_mismatch(pod: Pod, digest: str) -> None:
    profile = json.dumps({"gpu": "NVIDIA-H100-80GB-HBM3", "count": 1})
    assert_refused(pod.with_(**{Env.HARDWARE_PROFILE: profile}), digest, GaveUp.HARDWARE_MISMATCH, 17)


def test_paths_with_odd_characters_come_back_as_they_were(
    pod: Pod, storage: Server, tmp_path: Path, bucket: str
) -> None:
    folder = write_model(tmp_path / "odd")
    odd = ["a b/ü+c%20d.txt", "#1?x=y&z.txt", "d e/(f) [g] {h}~'!$,;=@.txt", "empty.txt"]
    for path in odd:
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text("" if path == "empty.txt" else path)
    uri = f"s3://{bucket}/odd name/1.0+b=2"
    digest = publish(storage, folder, uri)
    assert pod.with_(**{Env.MODEL_URI: uri}).pull(digest).code == 0
    assert {path: (pod.model(digest) / path).read_text() for path in odd} == {
        path: "" if path == "empty.txt" else path for path in odd
    }


def test_bytes_come_as_they_are_stored_whatever_encoding_the_object_claims(
    pod: Pod, digest: str, storage: Server, bucket: str, folder: Path
) -> None:
    data = (folder / WEIGHTS).read_bytes()
    put(storage, bucket, WEIGHTS, data, **{"Content-Encoding": "gzip"})
    assert pod.pull(digest).code == 0
    assert (pod.model(digest) / WEIGHTS).read_bytes() == data
    with pytest.raises(gzip.BadGzipFile):
        gzip.decompress(data)
