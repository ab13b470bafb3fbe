"""What a model is, out of its config.json and the headers of its weights."""

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from backstay_contract.manifest import Architecture, describe
from pydantic import ValidationError

from backstay_cli.errors import refused
from backstay_cli.model.files import safetensors_header

CONFIG = "config.json"
DTYPES = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}


def read_architecture(folder: Path, paths: Iterable[str]) -> Architecture:
    """The architecture of a model's folder. Raises CliError, naming the file and field."""
    try:
        config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise refused(f"{folder}: has no {CONFIG}; give a folder in Hugging Face's form") from None
    except ValueError as error:
        raise refused(f"{folder / CONFIG}: is no JSON: {error}") from None
    weights = [safetensors_header(folder / path) for path in paths if path.endswith(".safetensors")]
    if not weights:
        raise refused(f"{folder}: has no .safetensors file")
    return architecture(config, weights)


def architecture(config: Mapping[str, Any], weights: Iterable[Mapping[str, Mapping[str, Any]]]) -> Architecture:
    """The architecture that a config and the tensors of each weight file speak of. Pure. Raises CliError."""
    tensors = [tensor for file in weights for tensor in file.values()]
    parameters: Counter[str] = Counter()
    for tensor in tensors:
        parameters[str(tensor["dtype"])] += math.prod(tensor["shape"])
    stored = max(parameters, key=lambda dtype: parameters[dtype], default="F32")
    if stored not in DTYPES:
        raise refused(f"weights of type {stored} cannot be served; known: {', '.join(DTYPES)}")
    try:
        return Architecture.model_validate(
            {
                "family": config.get("model_type"),
                "parameters": parameters.total() or None,
                "dtype": DTYPES[stored],
                "maxModelLen": config.get("max_position_embeddings"),
            }
        )
    except ValidationError as error:
        raise refused(f"{CONFIG}: {describe(error)}") from None
