"""Recording what a computation launches on a GPU, to launch it again with one call."""

import threading
from collections.abc import Callable
from typing import Protocol

import torch

Compute = Callable[[], torch.Tensor]
"""Reads memory that stays where it is. Called to be recorded: what it does must not depend on what it reads."""

Replay = Callable[[], torch.Tensor]
"""Does the same again, with what is in that memory now. The result is overwritten by the next replay of any."""


class Capture(Protocol):
    """A way of recording computations. Not thread-safe: one thread calls it."""

    @property
    def room(self) -> bool:
        """Whether there is memory for another recording."""
        ...

    def capture(self, compute: Compute) -> Replay:
        """Records a computation, which runs some times for it. Raises RuntimeError where that cannot be."""
        ...

    def close(self) -> None:
        """Frees all recordings; none may be replayed afterwards."""
        ...


_MEMORY_SHARE = 0.1
"""Of what weights and cache leave free: most of that is for reading prompts."""

_WARM_UPS = 3
"""Runs before a recording, in which libraries choose their kernels and take their memory: none of that is recorded."""

_one_at_a_time = threading.Lock()
"""In a process; while models are swapped there are two engines."""


class CudaGraphs:
    """CUDA graphs that share one pool of memory, as no two run at once and no result is kept."""

    def __init__(self, device: torch.device, most_bytes: int | None = None) -> None:
        """`most_bytes`: of all graphs together; left out, a share of what is free when the first one is asked for."""
        self._device = device
        self._most_bytes = most_bytes
        self._pool = torch.cuda.graph_pool_handle()
        self._stream: torch.cuda.Stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._graphs: list[torch.cuda.CUDAGraph] = []
        self.bytes = 0
        """That all graphs took, as the device saw it: what others took meanwhile is counted too."""

    @property
    def room(self) -> bool:
        """Whether they have taken less than they may; the last one may go beyond it."""
        if self._most_bytes is None:
            self._most_bytes = int(_free(self._device) * _MEMORY_SHARE)
        return self.bytes < self._most_bytes

    def capture(self, compute: Compute) -> Replay:
        """A graph of the computation, after runs on a stream beside the others."""
        with _one_at_a_time, torch.cuda.device(self._device):
            torch.cuda.empty_cache()
            before = _free(self._device)
            self._warm_up(compute)
            graph = torch.cuda.CUDAGraph()
            # "thread_local": another thread may load a model meanwhile, and takes memory for it.
            with torch.cuda.graph(graph, pool=self._pool, stream=self._stream, capture_error_mode="thread_local"):
                result = compute()
            torch.cuda.empty_cache()
            self.bytes += max(0, before - _free(self._device))
        self._graphs.append(graph)

        def replay() -> torch.Tensor:
            graph.replay()
            return result

        return replay

    def _warm_up(self, compute: Compute) -> None:
        present = torch.cuda.current_stream(self._device)
        self._stream.wait_stream(present)
        with torch.cuda.stream(self._stream):
            for _ in range(_WARM_UPS):
                compute()
        present.wait_stream(self._stream)

    def close(self) -> None:
        """Gives the graphs' memory back to the device."""
        torch.cuda.synchronize(self._device)
        for graph in self._graphs:
            graph.reset()
        self._graphs.clear()
        torch.cuda.empty_cache()


def _free(device: torch.device) -> int:
    """Bytes."""
    return int(torch.cuda.mem_get_info(device)[0])
