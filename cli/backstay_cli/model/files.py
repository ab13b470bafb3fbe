"""Which files of a folder belong to a model, and which must not."""

import fnmatch
import json
import os
import pickle
import pickletools
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from backstay_contract.manifest import check_path
from backstay_contract.names import MANIFEST_FILE

from backstay_cli.errors import refused, usage

_OPCODES = frozenset(ord(opcode.code) for opcode in pickletools.opcodes)
HEAD_BYTES = 4096
GGUF_MARK = b"GGUF"
LFS_POINTER = b"version https://git-lfs.github.com/spec/"
UNFINISHED = (".incomplete", ".partial", ".crdownload", ".part", ".tmp")
MAX_SAFETENSORS_HEADER = 100 * 1024 * 1024
"""Bytes; the format's own bound."""


class Listing(NamedTuple):
    """A folder's files, each as a path below the folder with forward slashes, sorted."""

    kept: tuple[str, ...]
    left_out: tuple[str, ...]


def listing(folder: Path, exclude: Iterable[str] = ()) -> Listing:
    """The files of a model's folder. Hidden files, a manifest and what `exclude` (globs) names are left out.

    Links to files are followed, since download caches are made of them; links to folders are not. Raises CliError.
    """
    if not folder.is_dir():
        raise usage(
            f"{folder}: is neither a folder nor a GGUF file" if folder.exists() else f"{folder}: does not exist"
        )
    globs = tuple(exclude)
    kept: list[str] = []
    left_out: list[str] = []
    for root, folders, names in os.walk(folder):
        folders.sort()
        for name in [*names, *(name for name in folders if (Path(root) / name).is_symlink())]:
            path = (Path(root) / name).relative_to(folder).as_posix()
            (left_out if _left_out(path, globs) else kept).append(path)
    if not kept:
        raise refused(f"{folder}: has no files that could be a model's")
    return Listing(tuple(sorted(kept)), tuple(sorted(left_out)))


def is_gguf(file: Path) -> bool:
    """Whether this is a plain file that begins as GGUF does."""
    if not file.is_file():
        return False
    with file.open("rb") as opened:
        return opened.read(len(GGUF_MARK)) == GGUF_MARK


def _left_out(path: str, globs: tuple[str, ...]) -> bool:
    hidden = any(part.startswith(".") for part in path.split("/"))
    return hidden or path == MANIFEST_FILE or any(fnmatch.fnmatch(path, glob) for glob in globs)


def refusals(folder: Path, paths: Iterable[str]) -> list[str]:
    """Why files of a folder cannot be part of a model, a sentence each; empty when all can."""
    said = []
    for path in paths:
        file = folder / path
        if not file.is_file():
            said.append(f"{path}: is no plain file")
            continue
        with file.open("rb") as opened:
            head = opened.read(HEAD_BYTES)
        why = refusal(path, head) or (safetensors_problem(file) if path.endswith(".safetensors") else None)
        if why is not None:
            said.append(why)
    return said


def refusal(path: str, head: bytes) -> str | None:
    """Why a file with this path and these first bytes cannot be part of a model, or None. Pure."""
    if path.lower().endswith(UNFINISHED):
        return f"{path}: is an unfinished download; finish or remove it"
    if head.startswith(LFS_POINTER):
        return f"{path}: is a Git-LFS pointer, not the file; run git lfs pull"
    if _is_pickle(head):
        return f"{path}: is a pickle, which can run code when it is loaded; convert it to safetensors"
    try:
        check_path(path)
    except ValueError as error:
        return str(error).removeprefix("file path ")
    return None


def _is_pickle(head: bytes) -> bool:
    """torch's zip files, and plain pickles of protocol 2 and later: their mark, a protocol, an opcode."""
    if head.startswith(b"PK\x03\x04"):
        return b"/data.pkl" in head[:256]
    return len(head) > 2 and head[0] == 0x80 and 2 <= head[1] <= pickle.HIGHEST_PROTOCOL and head[2] in _OPCODES


def safetensors_header(file: Path) -> dict[str, dict[str, object]]:
    """The tensors of a safetensors file: name -> dtype, shape, data_offsets. Raises ValueError."""
    size = file.stat().st_size
    with file.open("rb") as opened:
        length = int.from_bytes(opened.read(8), "little")
        if not 2 <= length <= min(size - 8, MAX_SAFETENSORS_HEADER):
            raise ValueError(f"a header of {length} bytes does not fit into {size}")
        header = json.loads(opened.read(length))
    tensors = {name: entry for name, entry in header.items() if name != "__metadata__"}
    end = max((int(entry["data_offsets"][1]) for entry in tensors.values()), default=0)
    if 8 + length + end != size:
        raise ValueError(f"its header speaks of {8 + length + end} bytes, it has {size}")
    return tensors


def safetensors_problem(file: Path) -> str | None:
    """Why a safetensors file is not whole, or None."""
    try:
        safetensors_header(file)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        return f"{file.name}: is no whole safetensors file: {error}; download it again"
    return None
