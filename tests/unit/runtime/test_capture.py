"""What is asked of CUDA to capture a graph, and in which order: tests/device tells what comes of it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from backstay_runtime.graphs.capture import CudaGraphs

CARD = torch.device("cuda", 0)
MIB = 1 << 20


class Cuda:
    """A device of 1 GiB on which each graph takes 10 MiB."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.free = 1024 * MIB
        self.stream = "present"
        self.fails = False

    @contextmanager
    def on(self, stream: Any) -> Iterator[None]:
        before, self.stream = self.stream, str(stream)
        yield
        self.stream = before

    @contextmanager
    def captured(self, graph: Any, pool: str, stream: Any, capture_error_mode: str) -> Iterator[None]:
        self.said.append(f"capture into {pool}, {capture_error_mode}")
        with self.on(stream):
            yield
        if self.fails:
            raise torch.AcceleratorError("operation not permitted when stream is capturing", 900)
        self.free -= 10 * MIB


class Stream:
    """The one beside the present one."""

    def __init__(self, cuda: Cuda, name: str) -> None:
        self.cuda, self.name = cuda, name

    def __str__(self) -> str:
        return self.name

    def wait_stream(self, other: "Stream") -> None:
        self.cuda.said.append(f"{self} waits for {other}")


class Graph:
    """Says what is done with it."""

    def __init__(self, cuda: Cuda) -> None:
        self.cuda = cuda

    def replay(self) -> None:
        self.cuda.said.append("replay")

    def reset(self) -> None:
        self.cuda.said.append("reset")


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Cuda:
    one = Cuda()
    stand_in = {
        "Stream": lambda _device: Stream(one, "side"),
        "current_stream": lambda _device: Stream(one, "present"),
        "stream": one.on,
        "device": lambda _device: one.on(one.stream),
        "graph_pool_handle": lambda: "the pool",
        "CUDAGraph": lambda: Graph(one),
        "graph": one.captured,
        "empty_cache": lambda: one.said.append("empty"),
        "synchronize": lambda _device: one.said.append("synchronize"),
        "mem_get_info": lambda _device: (one.free, 1024 * MIB),
    }
    for name, value in stand_in.items():
        monkeypatch.setattr(torch.cuda, name, value)
    return one


def compute(cuda: Cuda) -> Any:
    def run() -> torch.Tensor:
        cuda.said.append(f"run on {cuda.stream}")
        return torch.ones(1)

    return run


def test_a_computation_is_warmed_up_and_captured_on_a_stream_beside_the_present_one(cuda: Cuda) -> None:
    replay = CudaGraphs(CARD).capture(compute(cuda))
    assert cuda.said == [
        "empty",
        "side waits for present",
        *["run on side"] * 3,
        "present waits for side",
        "capture into the pool, thread_local",
        "run on side",
        "empty",
    ]
    assert replay() is replay()
    assert cuda.said[-2:] == ["replay", "replay"]


def test_there_is_room_until_a_share_of_what_was_free_at_first_is_taken(cuda: Cuda) -> None:
    one = CudaGraphs(CARD)
    cuda.free = 250 * MIB  # the cache came after it
    captured = 0
    while one.room:
        one.capture(compute(cuda))
        captured += 1
    assert captured == 3, "20 MiB are less than a tenth of 250, 30 are not"
    assert one.bytes == 30 * MIB


def test_a_bound_of_nothing_leaves_room_for_none(cuda: Cuda) -> None:
    assert not CudaGraphs(CARD, most_bytes=0).room


def test_memory_that_others_give_back_meanwhile_is_not_counted_as_less(cuda: Cuda) -> None:
    one = CudaGraphs(CARD)
    one.capture(compute(cuda))

    def frees() -> torch.Tensor:
        cuda.free += 100 * MIB
        return torch.ones(1)

    one.capture(frees)
    assert one.bytes == 10 * MIB


def test_a_capture_that_fails_is_no_graph_and_frees_the_way_for_others(cuda: Cuda) -> None:
    one = CudaGraphs(CARD)
    cuda.fails = True
    with pytest.raises(RuntimeError, match="not permitted"):
        one.capture(compute(cuda))
    cuda.fails = False
    one.capture(compute(cuda))
    cuda.said.clear()
    one.close()
    assert cuda.said == ["synchronize", "reset", "empty"]
