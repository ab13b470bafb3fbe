"""The files of a model folder: JSON and safetensors."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from backstay_runtime.model.errors import ModelError
from backstay_runtime.model.held import Held, Matrix
from backstay_runtime.model.weightfile import KINDS, READS, WeightFile

_SHOWN = 5  # tensors named in a refusal


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file."""
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError) as why:
        raise ModelError(f"{path.name} cannot be read: {why}") from why
    if not isinstance(value, dict):
        raise ModelError(f"{path.name} holds a {type(value).__name__}, not an object")
    return value


class Checkpoint:
    """The tensors of a folder's safetensors files."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._stack = stack
        self._path_of: dict[str, Path] = {}
        self._open: dict[tuple[Path, str], Any] = {}
        self._read: dict[Path, WeightFile] = {}
        self._waiting: list[tuple[str, Matrix]] = []
        self._readers = ThreadPoolExecutor(READS, "weights")
        files = sorted(folder.glob("*.safetensors"))
        if not files:
            raise ModelError(f"{folder.name} holds no *.safetensors file")
        for path in files:
            for name in self._file(path, "cpu").keys():  # noqa: SIM118 - not a mapping
                if name in self._path_of:
                    raise ModelError(f"tensor {name!r} occurs in two files, the second is {path.name}")
                self._path_of[name] = path
            self._read[path] = WeightFile(path, stack, self._readers)
        stack.enter_context(self._readers)  # ends before the files that it reads are closed

    def _file(self, path: Path, device: str) -> Any:
        if (path, device) not in self._open:
            try:
                file = self._stack.enter_context(safe_open(path, framework="pt", device=device))
            except (SafetensorError, OSError) as why:
                raise ModelError(f"{path.name} is no safetensors file: {why}") from why
            self._open[path, device] = file
        return self._open[path, device]

    def account_for(self, shapes: Mapping[str, tuple[int, ...]], optional: Set[str] = frozenset()) -> None:
        """Refuses unless the files hold exactly these tensors in exactly these shapes; `optional` ones are not read."""
        missing = sorted(shapes.keys() - self._path_of.keys())
        extra = sorted(self._path_of.keys() - shapes.keys() - optional)
        wrong = []
        for name in sorted(shapes.keys() & self._path_of.keys()):
            tensor = self._file(self._path_of[name], "cpu").get_slice(name)
            found, kind = tuple(tensor.get_shape()), tensor.get_dtype()
            if found != shapes[name]:
                wrong.append(f"{name} {list(found)} instead of {list(shapes[name])}")
            if kind not in KINDS:
                raise ModelError(f"tensor {name!r} has type {kind}; weights are {', '.join(KINDS)}")
        said = [
            _list(word, names)
            for word, names in (("missing", missing), ("extra", extra), ("mis-shaped", wrong))
            if names
        ]
        if said:
            raise ModelError("the weights do not fit config.json: " + "; ".join(said))

    def get(self, name: str, device: torch.device) -> torch.Tensor:
        """The tensor as it lies in its file, on the device."""
        tensor: torch.Tensor = self._file(self._path_of[name], str(device)).get_tensor(name)
        return tensor

    def hold(self, name: str, matrix: Matrix) -> None:
        """Reads the tensor into a matrix of its shape, at the latest in `finish`. Raises ModelError.

        No more of it than two pieces is in memory beside the matrix, where that is on a CPU.
        """
        file = self._read[self._path_of[name]]
        if matrix.data.device.type != "cpu":
            _filled(name, matrix, self.get(name, matrix.data.device))
        elif matrix.plain and matrix.data.dtype == file.entries[name].dtype:
            self._waiting.append((name, matrix))
        else:
            for at, piece in file.pieces(name):
                _filled(name, matrix[at : at + len(piece)], piece)

    def finish(self) -> None:
        """Reads what needs no more than that, side by side. Raises ModelError."""
        reads = [
            read for name, matrix in self._waiting for read in self._read[self._path_of[name]].reads(name, matrix.data)
        ]
        # A task for each thread, not for each tensor: small ones come quicker than a thread is woken.
        list(self._readers.map(_each, (reads[first::READS] for first in range(READS))))
        for name, matrix in self._waiting:
            with named(name, matrix.held):
                matrix.check(matrix.data)
        self._waiting.clear()


def _each(reads: Iterable[Callable[[], None]]) -> None:
    for read in reads:
        read()


def _filled(name: str, matrix: Matrix, weight: torch.Tensor) -> None:
    with named(name, matrix.held):
        matrix.fill(weight)


@contextmanager
def named(name: str, held: Held) -> Iterator[None]:
    """Makes a ValueError a ModelError that says which weight cannot be held so."""
    try:
        yield
    except ValueError as why:
        raise ModelError(f"{name} cannot be held as {held}: {why}; choose another dtype") from why


def _list(word: str, names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{word}: {', '.join(names[:_SHOWN])}{more}"
