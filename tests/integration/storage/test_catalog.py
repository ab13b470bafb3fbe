"""Listing, comparing, publishing anew and collecting on a real MinIO."""

import io
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from backstay_cli.commands import options
from backstay_cli.model.check import check, in_storage
from backstay_cli.storage.catalog import catalog
from backstay_cli.storage.collect import Keep, Names, fates, remove
from backstay_cli.storage.requalify import requalify
from backstay_cli.storage.store import Store
from backstay_contract.manifest import EvaluationItem
from backstay_contract.names import Env

from .models import MIB, write_model
from .processes import Backstay, Pod
from .proxy import Proxy
from .server import Server

WEIGHTS = "model.safetensors"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_model(tmp_path / "model")


@pytest.fixture
def uri(bucket: str) -> str:
    return f"s3://{bucket}/m/1"


def store_of(storage: Server, uri: str) -> Store:
    return Store(storage.client(), options.place(uri), storage.endpoint)


def test_ls_tells_models_from_rests_and_from_other_peoples_objects(
    backstay: Backstay, storage: Server, bucket: str, folder: Path, uri: str
) -> None:
    digest = backstay.pushed(folder, uri)
    recorded = {"x-amz-meta-backstay-sha256": "0" * 64}
    storage.client().put_object(bucket, "m/2/config.json", io.BytesIO(b"{}"), 2, metadata=recorded)  # type: ignore[arg-type]
    storage.client().put_object(bucket, "data/x.csv", io.BytesIO(b"1"), 1)
    found = {one["uri"]: one for one in json.loads(backstay.run("ls", f"s3://{bucket}", "-o", "json").out)}
    assert found[uri]["digest"] == digest
    assert (found[uri]["name"], found[uri]["files"]) == ("m", 4)
    assert (found[f"s3://{bucket}/m/2"]["digest"], found[f"s3://{bucket}/m/2"]["pushed"]) == (None, True)
    assert not found[f"s3://{bucket}/data"]["pushed"]
    assert "cut off" in backstay.run("ls", f"s3://{bucket}").out


def test_diff_names_what_changed_between_two_versions(backstay: Backstay, folder: Path, uri: str, bucket: str) -> None:
    backstay.pushed(folder, uri)
    (folder / "tokenizer.json").write_text("{ }")
    backstay.pushed(folder, f"s3://{bucket}/m/2", "--baseline", "p99LatencyMs=420")
    ended = backstay.run("diff", uri, f"s3://{bucket}/m/2", "-o", "json")
    assert ended.code == 4
    fields = {one["field"] for one in json.loads(ended.out)["differences"]}
    assert {"baselines.p99LatencyMs", "files.tokenizer.json"} == fields


@pytest.fixture
def weights_are_large(tmp_path: Path) -> Path:
    return write_model(tmp_path / "large", 40 * MIB)


def test_a_model_under_a_new_manifest_is_copied_inside_the_storage_and_pulled_whole(
    backstay: Backstay, storage: Server, bucket: str, uri: str, weights_are_large: Path, pod: Pod, proxy: Proxy
) -> None:
    old = backstay.pushed(weights_are_large, uri)
    source, target = store_of(storage, uri), store_of(storage, f"s3://{bucket}/m/1-measured")
    manifest = in_storage(source).manifest
    changed = manifest.with_(evaluation=(EvaluationItem(text="a b", nll=2.0, tokens=1),))
    digest = requalify(source, target, changed)
    assert digest != old
    assert check(in_storage(target, read=True), digest, lambda _: None) == []
    assert requalify(source, target, changed) == digest
    assert pod.with_(**{Env.MODEL_URI: str(target.location)}).pull(digest).code == 0
    assert backstay.run("verify", uri, "--sha256", old).code == 0


def test_verify_reads_no_byte_that_the_storage_vouches_for(
    backstay: Backstay, uri: str, folder: Path, proxy: Proxy
) -> None:
    digest = backstay.pushed(folder, uri)
    through = {Env.STORAGE_ENDPOINT: proxy.endpoint}
    assert backstay.run("verify", uri, "--sha256", digest, **through).code == 0
    assert proxy.bytes_out < MIB
    assert backstay.run("verify", uri, "--sha256", digest, "--read", **through).code == 0
    assert proxy.bytes_out > 3 * MIB


def test_what_goes_is_gone_and_what_is_named_or_foreign_stays(
    backstay: Backstay, storage: Server, bucket: str, folder: Path, uri: str
) -> None:
    named = backstay.pushed(folder, uri)
    (folder / "tokenizer.json").write_text("{ }")
    backstay.pushed(folder, f"s3://{bucket}/m/2")
    storage.client().put_object(bucket, "m/2/notes.txt", io.BytesIO(b"1"), 1)
    storage.client()._create_multipart_upload(bucket, "m/3/w", {})
    store = store_of(storage, f"s3://{bucket}")
    later = datetime.now(UTC) + timedelta(days=8)
    names = Names({named: "prod/chat"}, {})
    decided = fates(catalog(store), names, later, min_age=timedelta(days=7), newest=0)
    assert {str(one.found.location): one.keep for one in decided if one.found.digest} == {
        uri: Keep.NAMED,
        f"s3://{bucket}/m/2": None,
    }
    for one in decided:
        if one.keep is None:
            remove(store, one.found)
    left = {str(one.object_name) for one in storage.client().list_objects(bucket, recursive=True)}
    assert left == {f"m/1/{path}" for path in ("config.json", "manifest.json", "tokenizer.json", WEIGHTS)} | {
        "m/2/notes.txt"
    }
    for key, upload_id in store.abandoned(later):
        store.abandon(key, upload_id)
    assert store.abandoned(later) == []


def test_gc_does_nothing_without_a_cluster_to_ask(backstay: Backstay, bucket: str, folder: Path, uri: str) -> None:
    backstay.pushed(folder, uri)
    ended = backstay.run("gc", f"s3://{bucket}", "--delete", "--min-age", "0s", "--keep", "0", KUBECONFIG="/nowhere")
    assert ended.code == 7
    assert backstay.run("verify", uri).code == 0
