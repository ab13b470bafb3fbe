"""The files of a model folder: JSON and safetensors."""

import json
from collections.abc import Mapping, Set
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from backstay_runtime.model.errors import ModelError

_KINDS = ("F32", "F16", "BF16")
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
    """The tensors of a folder's safetensors files, memory-mapped."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._stack = stack
        self._path_of: dict[str, Path] = {}
        self._open: dict[tuple[Path, str], Any] = {}
        files = sorted(folder.glob("*.safetensors"))
        if not files:
            raise ModelError(f"{folder.name} holds no *.safetensors file")
        for path in files:
            for name in self._file(path, "cpu").keys():  # noqa: SIM118 - not a mapping
                if name in self._path_of:
                    raise ModelError(f"tensor {name!r} occurs in two files, the second is {path.name}")
                self._path_of[name] = path

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
            if kind not in _KINDS:
                raise ModelError(f"tensor {name!r} has type {kind}; weights are {', '.join(_KINDS)}")
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


def _list(word: str, names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{word}: {', '.join(names[:_SHOWN])}{more}"
