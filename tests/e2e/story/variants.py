"""Other versions of a Llama model in safetensors form: the plan is pure, the files are written tensor by tensor.

`half`: the same weights as float16, half the bytes.
`deeper`: float16, and each layer is followed by copies of itself whose two output projections are zero. Such a copy
adds nothing to what the model computes (block expansion, as in LLaMA Pro, arXiv 2401.02415), so the answers stay as
they were and cost more: a model that every check of its answers lets through and that only its latency gives away.
"""

import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save_file

LAYER = re.compile(r"model\.layers\.(\d+)\.(.+)")
SILENT = ("self_attn.o_proj.weight", "mlp.down_proj.weight")
"""What a layer adds to the residual stream goes through these two."""
COPIED = ("generation_config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja")


class Tensor(NamedTuple):
    """A tensor of the new model."""

    name: str
    source: str
    """The tensor of the old model that it is made from."""
    zero: bool = False


def half(names: list[str]) -> list[Tensor]:
    """Every tensor as it is."""
    return [Tensor(name, name) for name in sorted(names)]


def deeper(names: list[str], times: int) -> list[Tensor]:
    """`times` times as many layers; layer i becomes layers i·times … i·times + times - 1, of which the first works."""
    tensors = []
    for name in sorted(names):
        match = LAYER.fullmatch(name)
        if match is None:
            tensors.append(Tensor(name, name))
            continue
        layer, part = int(match[1]), match[2]
        tensors += [
            Tensor(f"model.layers.{layer * times + copy}.{part}", name, zero=copy > 0 and part in SILENT)
            for copy in range(times)
        ]
    return tensors


def config(old: dict[str, Any], times: int) -> dict[str, Any]:
    """config.json of the new model."""
    return {**old, "torch_dtype": "float16", "num_hidden_layers": old["num_hidden_layers"] * times}


def write_half(source: Path, target: Path) -> None:
    """Write the float16 version into the folder `target`, which must exist."""
    _write(source, target, half, 1)


def write_deeper(source: Path, target: Path, times: int) -> None:
    """Write the version with `times` times as many layers into the folder `target`, which must exist."""
    _write(source, target, lambda names: deeper(names, times), times)


def _write(source: Path, target: Path, plan: Callable[[list[str]], list[Tensor]], times: int) -> None:
    for name in COPIED:
        shutil.copyfile(source / name, target / name)
    old = json.loads((source / "config.json").read_text())
    (target / "config.json").write_text(json.dumps(config(old, times), indent=1) + "\n")
    with safe_open(source / "model.safetensors", framework="numpy") as weights:
        tensors = dict(_made(weights, plan(list(weights.keys()))))
    save_file(tensors, target / "model.safetensors", metadata={"format": "pt"})


def _made(weights: Any, plan: list[Tensor]) -> Iterator[tuple[str, np.ndarray[Any, np.dtype[np.float16]]]]:
    made: dict[str, np.ndarray[Any, np.dtype[np.float16]]] = {}
    for tensor in plan:
        if tensor.source not in made:
            values = weights.get_tensor(tensor.source)
            if np.abs(values).max() > np.finfo(np.float16).max:
                raise ValueError(f"{tensor.source}: has values beyond float16's range; keep it as float32")
            made[tensor.source] = np.ascontiguousarray(values.astype(np.float16))
        array = made[tensor.source]
        yield tensor.name, np.zeros_like(array) if tensor.zero else array
