"""Each family layer by layer beside transformers, whose states layers.json holds; its `conventions` say how."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from backstay_runtime.batch import Slice
from backstay_runtime.model.linear import Dtype
from backstay_runtime.model.llama import Llama
from backstay_runtime.model.load import load_llama
from backstay_runtime.runner import Runner

from . import tiny

CPU = torch.device("cpu")
FAMILIES: list[Any] = json.loads((Path(__file__).parent / "layers.json").read_bytes())["families"]


def name(family: Any) -> str:
    return f"{family['config']['architectures'][0]} {(family['config']['rope_scaling'] or {}).get('rope_type', '')}"


def loaded(folder: Path, config: dict[str, Any]) -> Llama:
    """A stage a layer, so that each can be looked behind."""
    spans = [(CPU, range(number, number + 1)) for number in range(config["num_hidden_layers"])]
    folder = tiny.write(folder, tiny.tensors(config), config)
    return load_llama(folder, dtype=Dtype.FLOAT32, device=CPU, positions=64, spans=spans)


@pytest.mark.parametrize("family", FAMILIES, ids=name)
def test_every_layer_gives_the_states_of_transformers(tmp_path: Path, family: Any) -> None:
    config, tokens = family["config"], family["tokens"]
    model = loaded(tmp_path, config)
    assert torch.allclose(model.embed(torch.tensor(tokens))[-1].double(), torch.tensor(family["states"][0]).double())
    for layers in range(1, config["num_hidden_layers"] + 1):
        part = Llama(model.config, model.head, model.stages[:layers], torch.ones(config["hidden_size"]), model.head)
        part.embed = model.embed  # type: ignore[method-assign]
        hidden, _ = Runner(part, blocks=16, block_size=4).run([Slice(0, tokens, 0, list(range(2, 7)))])
        wanted = torch.tensor(family["states"][layers], dtype=torch.float64)
        assert float((hidden[-1].double() - wanted).abs().max()) < 1e-5 * float(wanted.abs().max())


@pytest.mark.parametrize("family", FAMILIES, ids=name)
def test_the_logits_are_those_of_transformers(tmp_path: Path, family: Any) -> None:
    tokens = family["tokens"]
    runner = Runner(loaded(tmp_path, family["config"]), blocks=16, block_size=4)
    hidden, _ = runner.run([Slice(0, tokens, 0, list(range(2, 7)))])
    found = runner.logits(hidden, [len(tokens) - 1])[0, :16].double()
    wanted = torch.tensor(family["logits"], dtype=torch.float64)
    assert float((found - wanted).abs().max()) < 1e-5 * float(wanted.abs().max())
