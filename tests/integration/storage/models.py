"""Small models that are real enough to be pushed."""

import json
import random
from pathlib import Path

from backstay_cli.model.describe import Qualification, describe
from backstay_cli.model.files import listing
from backstay_cli.storage import push as pushes
from backstay_cli.storage.store import Store
from backstay_contract import location

from .server import Server

MIB = 1024 * 1024
CONFIG = {"model_type": "llama", "max_position_embeddings": 128}


def write_model(folder: Path, size: int = 3 * MIB, seed: int = 1) -> Path:
    """A folder in Hugging Face's form with about `size` bytes of float32 weights."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    (folder / "tokenizer.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(safetensors(size // 4, seed))
    return folder


def safetensors(count: int, seed: int) -> bytes:
    """A safetensors file with one tensor of `count` float32 values."""
    header = json.dumps({"w": {"dtype": "F32", "shape": [count], "data_offsets": [0, 4 * count]}}).encode()
    return len(header).to_bytes(8, "little") + header + random.Random(seed).randbytes(4 * count)


def publish(server: Server, folder: Path, uri: str) -> str:
    """Pushes a folder as `backstay push` does, without a process of its own; returns the digest."""
    store = Store(server.client(), location.parse(uri), server.endpoint)
    description = describe(folder, listing(folder).kept, "m", "1", Qualification(), lambda _: None)
    pushes.push(store, folder, description, pushes.look(store, description), lambda _: None)
    return description.digest
