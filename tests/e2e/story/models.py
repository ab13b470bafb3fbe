"""The demo's three models, made once and kept in the cache under a name that changes when their making does."""

import hashlib
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from backstay_cli import convert
from backstay_cli.convert import fetch
from backstay_cluster import locks
from backstay_cluster.cluster import cache_root
from backstay_cluster.progress import Step

from tests.e2e.story import variants

DEPTH = 6
"""How many times as deep the third model is. Its limit is twice the P99 of the first, and a P99 is about twice the
median: what is only four times as slow is found out only by the queue that it makes."""


class Models(NamedTuple):
    """Folders, ready to be pushed."""

    first: Path
    """SmolLM2-135M-Instruct as it is, float32."""
    lighter: Path
    """The same weights as float16."""
    slower: Path
    """The same answers from `DEPTH` times as many layers."""


def ensure(step: Step) -> Models:
    """The three models, made where they are missing; says on `step` what it waits for."""
    root = cache_root() / "models" / f"demo-{key()}"
    root.mkdir(parents=True, exist_ok=True)
    with locks.held(root / "lock"):
        first = _kept(root / "first", lambda folder: _convert(folder, step))
        lighter = _kept(root / "lighter", lambda folder: _make(folder, variants.write_half, first, step))
        slower = _kept(root / "slower", lambda folder: _make(folder, _write_slower, first, step))
    return Models(first, lighter, slower)


def key() -> str:
    """12 hex digits of the original weights and of all code that makes models from them."""
    sources = [Path(variants.__file__), Path(__file__), *sorted(Path(convert.__file__).parent.glob("*.py"))]
    return hash_of([fetch.FILE_SHA256.encode(), *(source.read_bytes() for source in sources)])


def hash_of(parts: Iterable[bytes]) -> str:
    """12 hex digits that depend on every part and on where one ends."""
    whole = hashlib.sha256()
    for part in parts:
        whole.update(len(part).to_bytes(8, "little") + part)
    return whole.hexdigest()[:12]


def _kept(folder: Path, make: Callable[[Path], None]) -> Path:
    """The folder, whole: it is made beside its place and renamed."""
    if not folder.is_dir():
        partial = folder.with_name(f"{folder.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        make(partial)
        partial.rename(folder)
    return folder


def _convert(folder: Path, step: Step) -> None:
    step.waits_for("the download of SmolLM2-135M-Instruct (98 MB)")
    gguf = convert.fetch_smollm2(cache_root() / "models")
    convert.convert_gguf(gguf, folder, lambda _, done, whole: step.waits_for(f"conversion, {done / whole:.0%}"))


def _make(folder: Path, write: Callable[[Path, Path], None], first: Path, step: Step) -> None:
    step.waits_for(f"{folder.name.removesuffix('.partial')} weights")
    folder.mkdir()
    write(first, folder)


def _write_slower(first: Path, folder: Path) -> None:
    variants.write_deeper(first, folder, DEPTH)
