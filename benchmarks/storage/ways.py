"""The ways in which the model is moved. Each takes an empty folder, or for pushes an unused prefix's name."""

import hashlib
import importlib
import importlib.util
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from backstay_cli.model.describe import Description
from backstay_cli.model.hashing import hash_files
from backstay_cli.storage import push as pushes
from backstay_cli.storage.store import Store
from backstay_contract import manifest as manifests
from backstay_contract.location import Location
from backstay_runtime.pull import endpoint as endpoints
from backstay_runtime.pull.download import Options
from backstay_runtime.pull.pull import pull
from backstay_runtime.pull.settings import Settings
from backstay_runtime.pull.storage import Storage as Objects
from backstay_runtime.pull.transport import Transport

from benchmarks.storage.place import MIB, MODEL, Published, Storage

PARALLEL = 4
RANGE = 64 * MIB
"""Bytes of one request of a download."""
PART = 16 * MIB
"""Bytes of one request of an upload; `backstay push` sends as many."""
CHUNK = 256 * 1024

Way = Callable[[Path], None]


def pulled(storage: Storage, model: Published, options: Options) -> Way:
    """The init container's own code."""

    def run(folder: Path) -> None:
        settings = Settings(
            location=MODEL,
            digest=model.digest,
            endpoint=endpoints.parse(storage.url),
            region="us-east-1",
            credentials=storage.keys,
            models=folder,
            profile=None,
            allow_loopback=True,
        )
        transport = Transport(connections=options.requests, allow_loopback=True)
        pull(settings, Objects(settings, transport), options, lambda *_, **__: None)

    return run


def fget(storage: Storage, model: Published) -> Way:
    """minio-py's own download, four objects at a time."""
    client = storage.client()

    def run(folder: Path) -> None:
        with ThreadPoolExecutor(PARALLEL) as pool:
            list(
                pool.map(
                    lambda path: client.fget_object(MODEL.bucket, MODEL.key(path), str(folder / path)), model.sizes
                )
            )

    return run


def ranges(storage: Storage, model: Published, parallel: int, most: int) -> Way:
    """minio-py's get_object in ranges of at most `most` bytes."""
    client = storage.client()

    def one(work: tuple[Path, int, int]) -> None:
        file, start, end = work
        answer = client.get_object(MODEL.bucket, MODEL.key(file.name), offset=start, length=end - start)
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT)
        for data in answer.stream(CHUNK):
            os.pwrite(descriptor, data, start)
            start += len(data)
        os.close(descriptor)
        answer.release_conn()

    def run(folder: Path) -> None:
        work = [
            (folder / path, start, min(start + most, size))
            for path, size in model.sizes.items()
            for start in range(0, size, most)
        ]
        with ThreadPoolExecutor(parallel) as pool:
            list(pool.map(one, work))

    return run


def boto3(storage: Storage, model: Published) -> Way | None:
    """boto3's download_file, one object after the other, as KServe's storage initializer calls it; None without it."""
    if importlib.util.find_spec("boto3") is None:
        return None
    keys = {"aws_access_key_id": storage.access, "aws_secret_access_key": storage.secret}
    library = importlib.import_module("boto3")
    client = library.client("s3", endpoint_url=storage.url, region_name="us-east-1", **keys)

    def run(folder: Path) -> None:
        for path in model.sizes:
            client.download_file(MODEL.bucket, MODEL.key(path), str(folder / path))

    return run


def hashed(model: Published) -> Way:
    """SHA-256 alone, on one core, of as many bytes: what verifying costs at least."""
    block = os.urandom(CHUNK)

    def run(folder: Path) -> None:  # noqa: ARG001 - it writes nothing
        digest = hashlib.sha256()
        for _ in range(model.manifest.size // CHUNK):
            digest.update(block)

    return run


def pushed(storage: Storage, model: Published) -> Way:
    """What backstay push does: hash every file, then send it."""
    send = sent(storage, model)

    def run(folder: Path) -> None:
        if hash_files(model.folder, model.sizes, lambda _: None) != model.manifest.files:
            raise SystemExit("the files have other digests than when they were made")
        send(folder)

    return run


def sent(storage: Storage, model: Published) -> Way:
    """backstay push, after its files were hashed: send, record, publish."""
    description = Description(model.manifest, manifests.dump(model.manifest), model.digest)

    def run(folder: Path) -> None:
        store = Store(storage.client(), Location(MODEL.bucket, f"push/{folder.name}"), storage.url)
        pushes.push(store, model.folder, description, pushes.look(store, description), lambda _: None)

    return run


def fput(storage: Storage, model: Published) -> Way:
    """minio-py's own upload, four objects at a time, in parts of which four are sent at a time."""
    client = storage.client()

    def send(folder: Path, path: str) -> None:
        client.fput_object(
            MODEL.bucket, f"fput/{folder.name}/{path}", str(model.folder / path), part_size=PART,
            num_parallel_uploads=PARALLEL,
        )  # fmt: skip

    def run(folder: Path) -> None:
        with ThreadPoolExecutor(PARALLEL) as pool:
            list(pool.map(lambda path: send(folder, path), model.sizes))

    return run
