"""What it takes to have a model's weights in memory, beside safetensors' load_file of the same file.

    python -m benchmarks.engine.load [--rounds 9] [-o json]

SmolLM2-135M from a file of float32 and one of bfloat16 that lie in the page cache. Compared are, in turn:

    read      load_file and a sum over every tensor
    copied    load_file and a copy of every tensor, in the type in which ours are held
    backstay  the runtime's own loading: every tensor accounted for, held as it is computed with

load_file alone maps the file and reads nothing, in milliseconds whatever the size. With `read` each byte came from the
page cache once: less cannot be called loading. But then the process has no weights of its own, the page cache has, and
they are in the file's type. `copied` ends as ours does, with weights that nobody can take away.

Memory is of a process of its own: the most anonymous memory above what the weights take in the end, and the most of the
file that was mapped, which the kernel may drop but counts as the process's.
"""

import argparse
import json
import multiprocessing
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from backstay_runtime.model import memory
from backstay_runtime.model.checkpoint import read_json
from backstay_runtime.model.linear import Dtype
from backstay_runtime.model.load import load_llama
from safetensors.torch import load_file, save_file

from tests.goldens.replay import converted

CPU = torch.device("cpu")
POSITIONS = 1024
WEIGHTS = "model.safetensors"
WAYS = ("read", "copied", "backstay")
SAMPLE_SECONDS = 0.001
MIB = 1024 * 1024


class Case(NamedTuple):
    """A file, and how its weights are held."""

    stored: torch.dtype
    held: Dtype

    @property
    def name(self) -> str:
        return f"{str(self.stored).removeprefix('torch.')} as {self.held}"


CASES = (
    Case(torch.float32, Dtype.FLOAT32),
    Case(torch.bfloat16, Dtype.FLOAT32),
    Case(torch.bfloat16, Dtype.FLOAT16),
)


class Line(NamedTuple):
    """What was seen of one way; seconds are medians."""

    case: str
    way: str
    seconds: float
    cpu_seconds: float
    runs: list[float]
    above_weights_mib: float
    mapped_mib: float


def way_of(name: str, folder: Path, held: Dtype) -> Callable[[], Any]:
    """The function that loads; what it returns has the weights, and `bytes_of` their size."""
    if name == "backstay":
        return lambda: load_llama(folder, dtype=held, device=CPU, positions=POSITIONS)
    if name == "copied":
        dtype = getattr(torch, held)
        return lambda: {key: one.to(dtype, copy=True) for key, one in load_file(folder / WEIGHTS).items()}

    def read() -> Any:
        tensors = load_file(folder / WEIGHTS)
        for one in tensors.values():
            one.sum()
        return tensors

    return read


def bytes_of(name: str, loaded: Any) -> int:
    """Memory of its own that the loaded weights take."""
    if name == "backstay":
        return int(loaded.bytes)
    return 0 if name == "read" else sum(one.numel() * one.element_size() for one in loaded.values())


def warm(size: int) -> None:
    """Leaves as much free memory that was just used: a virtual machine's host takes back what is free for long."""
    memory.empty([size], torch.uint8, CPU).zero_()


def resident() -> tuple[int, int]:
    """Bytes of anonymous memory and of mapped files that this process has."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines())
    anonymous, files = (int(lines[name].split()[0]) * 1024 for name in ("RssAnon", "RssFile"))
    return anonymous, files


@contextmanager
def watching() -> Iterator[list[tuple[int, int]]]:
    """Readings of `resident`, every millisecond and at the end."""
    seen, ended = [resident()], threading.Event()

    def watch() -> None:
        while not ended.wait(SAMPLE_SECONDS):
            seen.append(resident())

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield seen
    finally:
        ended.set()
        thread.join()
        seen.append(resident())


def peak(name: str, folder: Path, held: Dtype) -> tuple[int, int]:
    """Most bytes above the weights, and of mapped files. To be called in a process of its own."""
    way = way_of(name, folder, held)
    before = resident()
    with watching() as seen:
        loaded = way()
    anonymous, files = (max(one[kind] for one in seen) - before[kind] for kind in range(2))
    return anonymous - bytes_of(name, loaded), files


def measure(case: Case, folder: Path, rounds: int) -> list[Line]:
    """Every way in turn, each round begun by another; then each once in a process of its own, for its memory."""
    (folder / WEIGHTS).read_bytes()
    size = 4 * sum(one.numel() for one in load_file(folder / WEIGHTS).values())
    seen: dict[str, list[tuple[float, float]]] = {name: [] for name in WAYS}
    for turn in range(rounds):
        for name in WAYS[turn % len(WAYS) :] + WAYS[: turn % len(WAYS)]:
            warm(size)
            way = way_of(name, folder, case.held)
            began, cpu = time.perf_counter(), time.process_time()
            loaded = way()
            seen[name].append((time.perf_counter() - began, time.process_time() - cpu))
            del loaded
    lines = []
    for name, runs in seen.items():
        with multiprocessing.get_context("spawn").Pool(1) as fresh:
            above, mapped = fresh.apply(peak, (name, folder, case.held))
        seconds, cpus = (statistics.median(column) for column in zip(*runs, strict=True))
        walls = [round(wall, 3) for wall, _ in runs]
        lines.append(Line(case.name, name, seconds, cpus, walls, above / MIB, mapped / MIB))
    return lines


def stored_as(dtype: torch.dtype, model: Path, folder: Path) -> Path:
    """The model with its weights in another type."""
    (folder / "config.json").write_text(json.dumps(read_json(model / "config.json")))
    save_file({name: one.to(dtype) for name, one in load_file(model / WEIGHTS).items()}, folder / WEIGHTS)
    return folder


def table(lines: list[Line]) -> str:
    """A line for each, with how many times as long the runtime takes."""
    ours = {line.case: line.seconds for line in lines if line.way == "backstay"}
    shown = [f"{'weights':22} {'way':9} {'s':>6} {'CPU s':>6} {'ours':>7} {'MiB above':>10} {'mapped':>7}  runs"]
    for line in lines:
        ratio = f"{ours[line.case] / line.seconds:.2f} x"
        shown.append(
            f"{line.case:22} {line.way:9} {line.seconds:6.3f} {line.cpu_seconds:6.3f} {ratio:>7} "
            f"{line.above_weights_mib:>10.0f} {line.mapped_mib:>7.0f}  {line.runs}"
        )
    return "\n".join(shown)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("-o", choices=("text", "json"), default="text", dest="output")
    given = parser.parse_args()
    lines = []
    for case in CASES:
        with tempfile.TemporaryDirectory() as folder:
            lines += measure(case, stored_as(case.stored, converted(), Path(folder)), given.rounds)
    shown = json.dumps([line._asdict() for line in lines]) if given.output == "json" else table(lines)
    sys.stdout.write(f"{shown}\n")


if __name__ == "__main__":
    main()
