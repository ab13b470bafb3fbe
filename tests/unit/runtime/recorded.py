"""What a CUDA graph is, on a CPU: the calls that a computation made, made again without it.

So a computation that looked at what it read gives, replayed, what it gave for other numbers; and one that asks for a
number's value on the host is refused, as a GPU refuses it.
"""

from collections.abc import Callable
from typing import Any

import torch
from backstay_runtime.graphs.capture import Compute, Replay
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

_ASKS_THE_HOST = ("aten._local_scalar_dense", "aten.nonzero", "aten.is_nonzero", "aten.equal")


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: list[tuple[Callable[..., Any], Any, Any, Any]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(str(func).startswith(name) for name in _ASKS_THE_HOST):
            raise RuntimeError(f"{func} is not permitted when stream is capturing")
        out = func(*args, **(kwargs or {}))
        self.calls.append((func, args, kwargs or {}, out))
        return out


class Recorded:
    """Records without a limit, unless it is told that memory is used up, or fails when it is told to."""

    def __init__(self, fails: Exception | None = None) -> None:
        self.room = True
        self.fails = fails
        self.recordings = 0
        self.attempts = 0
        self.closed = False

    def capture(self, compute: Compute) -> Replay:
        """Runs it once beforehand, as a GPU does, and once recorded."""
        self.attempts += 1
        if self.fails is not None:
            raise self.fails
        compute()
        with _Recorder() as recorder:
            result = compute()
        self.recordings += 1

        def replay() -> torch.Tensor:
            assert not self.closed
            result.copy_(_again(recorder.calls, result))
            return result

        return replay

    def close(self) -> None:
        """Nothing may be replayed from now on."""
        self.closed = True


def _again(calls: list[tuple[Callable[..., Any], Any, Any, Any]], result: torch.Tensor) -> torch.Tensor:
    """The calls on what stayed where it was, and on what they make themselves."""
    made: dict[int, torch.Tensor] = {}

    def present(one: torch.Tensor) -> torch.Tensor:
        return made.get(id(one), one)

    for func, args, kwargs, out in calls:
        found = func(*tree_map_only(torch.Tensor, present, args), **tree_map_only(torch.Tensor, present, kwargs))
        for before, now in zip(_tensors(out), _tensors(found), strict=True):
            made[id(before)] = now
    return made[id(result)]


def _tensors(out: Any) -> list[torch.Tensor]:
    whole = out if isinstance(out, list | tuple) else [out]
    return [one for one in whole if isinstance(one, torch.Tensor)]
