"""Pull and push beside plain transfers of the same objects, in one run, on the loopback interface.

    python -m benchmarks.storage [--mib 512] [--files 1] [--rounds 7] [-o json]

Compared are, in turn and each into an empty folder or prefix on the same disk:

    pull      the init container's code: ranges in parallel, SHA-256 of every byte, one rename
    fget      minio-py's fget_object, four objects at a time: what a plain parallel download is with this library
    ranges    minio-py's get_object in ranges, four at a time, without hashing: the most that can be had
    one       minio-py's get_object, one stream after the other
    boto3     what KServe's storage initializer calls; run with `uv run --with boto3` to have it
    rclone    rclone copy, four transfers of four streams; a process for each, whose start counts
    sha256    SHA-256 alone on one core
    push      backstay push: every file hashed, then sent
    send      the same of files that are hashed already
    fput      minio-py's fput_object, four objects at a time
    rclone-up rclone copy to the storage, with parts as large and as many at a time

A way whose library or program is not there is named and left out. Client and server share the machine, so whoever uses
less CPU is faster; seconds of CPU are the client's. The bounds are what a pull and a push could reach here at most: the
work of `ranges` (client and server) and that of `sha256`, on all cores; and a hash, then the work of `fput` and a hash.
"""

import argparse
import json
import os
import resource
import shutil
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from backstay_runtime.pull.download import Options

from benchmarks.storage import place, rclone, ways
from benchmarks.storage.place import MIB
from benchmarks.storage.ways import PARALLEL, RANGE, Way

UPLOADS = ("push", "send", "fput", "rclone-up")
ABSENT = {
    "boto3": "run with `uv run --with boto3` to have it",
    "rclone": "`uv run python -m backstay_cluster build --only rclone` builds it",
    "rclone-up": "as rclone",
}
"""How to have the ways that need more than the project does."""


class Measured(NamedTuple):
    """One way."""

    way: str
    mb_per_second: float
    """Median of the runs; 10^6 bytes per second of wall time."""
    runs: list[int]
    cpu_seconds: float
    """The client's, its processes' included, median."""


def cpu_seconds() -> float:
    """User and system time of this process and of those that it waited for."""
    used = [resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def measure(all_ways: dict[str, Way], folder: Path, rounds: int, size: int) -> dict[str, Measured]:
    """Every way in turn, `rounds` times, each round begun by another way."""
    seen: dict[str, list[tuple[float, float]]] = {name: [] for name in all_ways}
    order = list(all_ways.items())
    for turn in range(rounds):
        first = turn % len(order)
        for name, way in order[first:] + order[:first]:
            place.warm(folder, size)
            (target := folder / uuid.uuid4().hex).mkdir()
            began, cpu = time.perf_counter(), cpu_seconds()
            way(target)
            seen[name].append((time.perf_counter() - began, cpu_seconds() - cpu))
            shutil.rmtree(target)
    return {
        name: Measured(
            name,
            size / 1e6 / statistics.median(wall for wall, _ in runs),
            [round(size / 1e6 / wall) for wall, _ in runs],
            statistics.median(cpu for _, cpu in runs),
        )
        for name, runs in seen.items()
    }


def pull_bound(found: Mapping[str, Measured], cores: int) -> float:
    """MB/s of a pull that does the work of `ranges` and of `sha256` and nothing else, on all cores. Pure."""
    return 1 / (1 / found["ranges"].mb_per_second + 1 / found["sha256"].mb_per_second / cores)


def push_bound(found: Mapping[str, Measured], cores: int, files: int) -> float:
    """MB/s of a push that hashes every file, a core each, and then does the work of `fput` and another hash. Pure."""
    hashed = 1 / found["sha256"].mb_per_second
    return 1 / (hashed / min(files, cores) + 1 / found["fput"].mb_per_second + hashed / cores)


def run(mib: int, files: int, rounds: int, parent: Path | None) -> tuple[int, dict[str, Measured]]:
    """Bytes of the model, and what was measured."""
    with tempfile.TemporaryDirectory(dir=parent) as name, place.storage(Path(name)) as storage:
        folder = Path(name)
        model = place.publish(storage.client(), folder, files, mib * MIB)
        total = model.manifest.size
        all_ways = {
            "pull": ways.pulled(storage, model, Options()),
            "fget": ways.fget(storage, model),
            "ranges": ways.ranges(storage, model, PARALLEL, RANGE),
            "one": ways.ranges(storage, model, 1, total),
            "boto3": ways.boto3(storage, model),
            "rclone": rclone.pulled(storage),
            "sha256": ways.hashed(model),
            "push": ways.pushed(storage, model),
            "send": ways.sent(storage, model),
            "fput": ways.fput(storage, model),
            "rclone-up": rclone.pushed(storage, model),
        }
        return total, measure(present(all_ways), folder, rounds, total)


def present(all_ways: Mapping[str, Way | None]) -> dict[str, Way]:
    """Those that are here; the others are named on stderr."""
    for name, way in all_ways.items():
        if way is None:
            sys.stderr.write(f"{name} is left out: {ABSENT[name]}\n")
    return {name: way for name, way in all_ways.items() if way is not None}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mib", type=int, default=512, help="MiB of the model")
    parser.add_argument("--files", type=int, default=1, help="files that they are split into")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--folder", type=Path, help="folder on the disk that is measured; default: a temporary one")
    parser.add_argument("-o", choices=("text", "json"), default="text", dest="output")
    given = parser.parse_args()
    total, found = run(given.mib, given.files, given.rounds, given.folder)
    cores = os.cpu_count() or 1
    bounds = {"pull": pull_bound(found, cores), "push": push_bound(found, cores, given.files)}
    if given.output == "json":
        most = {name: round(rate) for name, rate in bounds.items()}
        said = {"bytes": total, "files": given.files, "cpus": cores, "boundsMbPerSecond": most}
        sys.stdout.write(json.dumps(said | {"ways": [one._asdict() for one in found.values()]}) + "\n")
        return
    sys.stdout.write(f"{total} bytes in {given.files} files, {cores} CPUs, median of {given.rounds}\n")
    for one in found.values():
        ours = found["push" if one.way in UPLOADS else "pull"]
        ratio = f"{ours.way} is {ours.mb_per_second / one.mb_per_second:.2f} x"
        sys.stdout.write(
            f"{one.way:9} {one.mb_per_second:>6.0f} MB/s  {ratio}  client CPU {one.cpu_seconds:.2f} s  {one.runs}\n"
        )
    for name, rate in bounds.items():
        reached = found[name].mb_per_second / rate
        sys.stdout.write(f"{name}, at most {rate:.0f} MB/s: it is {reached:.2f} x\n")


if __name__ == "__main__":
    main()
