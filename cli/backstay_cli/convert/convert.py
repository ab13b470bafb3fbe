"""GGUF in, model folder out: one tensor in memory at a time, and the folder appears whole or not at all."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import gguf
import numpy as np

from backstay_cli.convert import layout, settings
from backstay_cli.convert.errors import ConvertError

__all__ = ["ConvertError", "Progress", "convert_gguf"]

Progress = Callable[[str, int, int], None]
"""Called with what is being written, bytes done and bytes in all."""

_ALIGNMENT = 8  # bytes; safetensors wants its data to start at a multiple of it


def convert_gguf(gguf_path: Path, out_folder: Path, progress: Progress) -> None:
    """Writes the Llama model of `gguf_path` as float32 into the new folder `out_folder`.

    The result is written beside it and renamed, so that a broken conversion leaves nothing behind.
    Raises ConvertError if the folder exists or the file is no model that can be converted.
    """
    if out_folder.exists():
        raise ConvertError(f"{out_folder} exists: give a folder that does not exist yet, or remove it")
    reader = _open(gguf_path)
    metadata = {key: field.contents() for key, field in reader.fields.items()}
    tensors = {layout.checkpoint_name(tensor.name): tensor for tensor in reader.tensors}
    partial = out_folder.with_name(out_folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        _write_settings(partial, metadata, tied="lm_head.weight" not in tensors)
        with (partial / "model.safetensors").open("wb") as out:
            _write_weights(out, tensors, metadata, progress)
        partial.rename(out_folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _open(path: Path) -> gguf.GGUFReader:
    try:
        return gguf.GGUFReader(path)
    except (OSError, ValueError) as why:
        raise ConvertError(f"{path} cannot be read as GGUF: {why}") from why


def _write_settings(folder: Path, metadata: settings.Metadata, *, tied: bool) -> None:
    files = {
        "config.json": settings.as_text(settings.model_config(metadata, tied)),
        "generation_config.json": settings.as_text(settings.generation_config(metadata)),
        "tokenizer.json": settings.as_text(settings.tokenizer(metadata)),
        "tokenizer_config.json": settings.as_text(settings.tokenizer_config(metadata)),
        "chat_template.jinja": settings.chat_template(metadata),
    }
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")


def _write_weights(
    out: BinaryIO, tensors: dict[str, gguf.ReaderTensor], metadata: settings.Metadata, progress: Progress
) -> None:
    header, total = _header({name: _shape(tensors[name]) for name in sorted(tensors)})
    out.write(header)
    done = 0
    for name, weight in _weights(tensors, metadata):
        data = np.ascontiguousarray(weight, dtype="<f4").tobytes()
        out.write(data)
        done += len(data)
        progress(name, done, total)


def _shape(tensor: gguf.ReaderTensor) -> list[int]:
    """GGUF lists the contiguous dimension first."""
    return [int(size) for size in reversed(tensor.shape)]


def _header(shapes: dict[str, list[int]]) -> tuple[bytes, int]:
    """The head of a safetensors file of float32 tensors in this order, and the bytes that follow it."""
    entries: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name, shape in shapes.items():
        end = at + 4 * int(np.prod(shape))
        entries[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, end]}
        at = end
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    return len(text).to_bytes(8, "little") + text, at


def _weights(tensors: dict[str, gguf.ReaderTensor], metadata: settings.Metadata) -> Iterator[tuple[str, layout.Floats]]:
    heads = settings.need(metadata, "llama.attention.head_count")
    kv_heads = metadata.get("llama.attention.head_count_kv", heads)
    for name in sorted(tensors):
        tensor = tensors[name]
        weight = gguf.quants.dequantize(tensor.data, tensor.tensor_type).reshape(_shape(tensor))
        interleaved = layout.rotary_heads(name, heads, kv_heads)
        if interleaved is not None:
            weight = layout.split_rotary_halves(weight, interleaved)
        yield name, weight
