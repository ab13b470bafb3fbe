"""What decides an image's content, as a hash: equal keys mean that nothing needs to be built."""

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path

KEY_DIGITS = 12
"""Hex digits of a key that serve as an image's tag: 48 bits, ample for the builds of one machine."""

_NOT_CONTENT = {"__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache"}

Part = tuple[str, bytes]
"""A name and the bytes that it stands for."""


def key(parts: Iterable[Part]) -> str:
    """The key of these parts; their order counts. Lengths are hashed too, so that no two lists of parts collide."""
    digest = hashlib.sha256()
    for name, content in parts:
        digest.update(f"{len(name)} {len(content)} {name}\n".encode())
        digest.update(content)
    return digest.hexdigest()[:KEY_DIGITS]


def text(name: str, value: str) -> Part:
    """A part that is a text."""
    return name, value.encode()


def files(root: Path, names: Iterable[str]) -> Iterator[Part]:
    """The files of these names below `root`, and all files in these folders, in a fixed order."""
    for name in names:
        path = root / name
        found = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in found:
            if file.is_file() and file.suffix != ".pyc" and not _NOT_CONTENT.intersection(file.parts):
                yield file.relative_to(root).as_posix(), file.read_bytes()
