"""Pull beside a plain download of the same objects, in one run, on the loopback interface.

    uv run python benchmarks/pull.py [--mib 512] [--files 1] [--rounds 7] [-o json]

Compared are, in turn and each into an empty folder on the same disk:

    pull      the init container's code: ranges in parallel, SHA-256 of every byte, fsync, one rename
    fget      minio-py's fget_object, four objects at a time: what a plain parallel download is with this library
    ranges    minio-py's get_object in ranges, four at a time, without hashing and fsync: the most that can be had
    one       minio-py's get_object, one stream after the other

Client and server share the machine, so whoever uses less CPU is faster; seconds of CPU are the client's.
"""

import argparse
import hashlib
import io
import json
import os
import secrets
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from backstay_cluster import programs
from backstay_contract import manifest as manifests
from backstay_contract.location import Location
from backstay_contract.manifest import Architecture, Manifest, ModelFile
from backstay_contract.names import MANIFEST_FILE
from backstay_runtime.pull import endpoint as endpoints
from backstay_runtime.pull.download import Options
from backstay_runtime.pull.pull import pull
from backstay_runtime.pull.settings import Settings
from backstay_runtime.pull.storage import Storage
from backstay_runtime.pull.transport import Transport
from minio import Minio

MIB = 1024 * 1024
PARALLEL = 4
RANGE = 64 * MIB
BUCKET, PREFIX = "models", "bench/1"


@contextmanager
def storage(folder: Path) -> Iterator[tuple[str, Minio, Path]]:
    """A MinIO of its own: host and port, a client, and a folder with its keys."""
    program = programs.built("minio") or shutil.which("minio")
    if program is None:
        raise SystemExit("MinIO is not built: run `uv run python -m backstay_cluster build --only minio`")
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{one.getsockname()[1]}"
    access, secret = secrets.token_hex(8), secrets.token_hex(16)
    keys = folder / "keys"
    keys.mkdir()
    (keys / "accessKey").write_text(access)
    (keys / "secretKey").write_text(secret)
    environment = {"MINIO_ROOT_USER": access, "MINIO_ROOT_PASSWORD": secret, "HOME": str(folder)}
    command = [str(program), "server", "--quiet", "--address", host, str(folder / "data")]
    with (folder / "minio.log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        _wait(f"http://{host}/minio/health/ready")
        yield host, Minio(host, access, secret, secure=False, region="us-east-1"), keys
    finally:
        process.terminate()
        process.wait(10)


def _wait(url: str) -> None:
    for _ in range(300):
        try:
            with urllib.request.urlopen(url, timeout=1):  # noqa: S310 - a loopback address made above
                return
        except OSError:
            time.sleep(0.1)
    raise SystemExit(f"{url} did not answer")


def fill(client: Minio, folder: Path, files: int, size: int) -> tuple[str, dict[str, int]]:
    """Puts a model of random bytes; returns its digest and its files' sizes."""
    client.make_bucket(BUCKET)
    listed = []
    for index in range(files):
        path = f"model-{index:05}.safetensors"
        file = folder / "source"
        hashed = hashlib.sha256()
        with file.open("wb") as out:
            for _ in range(size // files // MIB):
                block = os.urandom(MIB)
                hashed.update(block)
                out.write(block)
        client.fput_object(BUCKET, f"{PREFIX}/{path}", str(file), part_size=64 * MIB)
        listed.append(ModelFile(path=path, size=file.stat().st_size, sha256=hashed.hexdigest()))
        file.unlink()
    manifest = Manifest(name="bench", version="1", files=tuple(listed), architecture=Architecture(family="llama"))
    data = manifests.dump(manifest)
    client.put_object(BUCKET, f"{PREFIX}/{MANIFEST_FILE}", io.BytesIO(data), len(data))
    return manifests.digest_of(data), {file.path: file.size for file in listed}


def with_pull(host: str, keys: Path, digest: str, options: Options) -> Callable[[Path], None]:
    def run(folder: Path) -> None:
        settings = Settings(
            location=Location(BUCKET, PREFIX),
            digest=digest,
            endpoint=endpoints.parse(f"http://{host}"),
            region="us-east-1",
            credentials=keys,
            models=folder,
            profile=None,
            allow_loopback=True,
        )
        transport = Transport(connections=options.requests, allow_loopback=True)
        pull(settings, Storage(settings, transport), options, lambda *_, **__: None)

    return run


def with_fget(client: Minio, sizes: dict[str, int]) -> Callable[[Path], None]:
    def run(folder: Path) -> None:
        with ThreadPoolExecutor(PARALLEL) as pool:
            list(pool.map(lambda path: client.fget_object(BUCKET, f"{PREFIX}/{path}", str(folder / path)), sizes))

    return run


def with_ranges(client: Minio, sizes: dict[str, int], parallel: int, most: int) -> Callable[[Path], None]:
    def one(work: tuple[Path, int, int]) -> None:
        file, start, end = work
        answer = client.get_object(BUCKET, f"{PREFIX}/{file.name}", offset=start, length=end - start)
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT)
        for data in answer.stream(256 * 1024):
            os.pwrite(descriptor, data, start)
            start += len(data)
        os.close(descriptor)
        answer.release_conn()

    def run(folder: Path) -> None:
        work = [
            (folder / path, start, min(start + most, size))
            for path, size in sizes.items()
            for start in range(0, size, most)
        ]
        with ThreadPoolExecutor(parallel) as pool:
            list(pool.map(one, work))

    return run


def measure(ways: dict[str, Callable[[Path], None]], folder: Path, rounds: int, size: int) -> list[dict[str, object]]:
    """Every way in turn, `rounds` times; MB/s are 10^6 bytes per second of wall time."""
    seen: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            target = folder / "target"
            target.mkdir()
            began, cpu = time.perf_counter(), time.process_time()
            way(target)
            seen[name].append((time.perf_counter() - began, time.process_time() - cpu))
            shutil.rmtree(target)
    return [
        {
            "way": name,
            "mb_per_second_median": round(size / 1e6 / statistics.median(wall for wall, _ in runs)),
            "mb_per_second_runs": [round(size / 1e6 / wall) for wall, _ in runs],
            "client_cpu_seconds_median": round(statistics.median(cpu for _, cpu in runs), 2),
        }
        for name, runs in seen.items()
    ]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--mib", type=int, default=512, help="MiB of the model")
    arguments.add_argument("--files", type=int, default=1, help="files that they are split into")
    arguments.add_argument("--rounds", type=int, default=7)
    arguments.add_argument("--folder", type=Path, help="folder on the disk that is measured; default: a temporary one")
    arguments.add_argument("-o", choices=("text", "json"), default="text", dest="output")
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as name, storage(Path(name)) as (host, client, keys):
        folder = Path(name)
        digest, sizes = fill(client, folder, given.files, given.mib * MIB)
        total = sum(sizes.values())
        ways = {
            "pull": with_pull(host, keys, digest, Options()),
            "fget": with_fget(client, sizes),
            "ranges": with_ranges(client, sizes, PARALLEL, RANGE),
            "one": with_ranges(client, sizes, 1, total),
        }
        result = measure(ways, folder, given.rounds, total)
    pulled = int(str(result[0]["mb_per_second_median"]))
    for line in result:
        line["pull_is"] = round(pulled / int(str(line["mb_per_second_median"])), 2)
    if given.output == "json":
        sys.stdout.write(
            json.dumps({"bytes": total, "files": given.files, "cpus": os.cpu_count(), "ways": result}) + "\n"
        )
        return
    sys.stdout.write(f"{total} bytes in {given.files} files, {os.cpu_count()} CPUs, median of {given.rounds}\n")
    for line in result:
        sys.stdout.write(
            f"{line['way']:8} {line['mb_per_second_median']:>6} MB/s  pull is {line['pull_is']} x  "
            f"client CPU {line['client_cpu_seconds_median']} s  {line['mb_per_second_runs']}\n"
        )


if __name__ == "__main__":
    main()
