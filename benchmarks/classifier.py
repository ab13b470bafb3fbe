"""A text classifier under requests that arrive by chance: what its clients see.

    uv run python -m benchmarks.classifier                   50 requests a second for 20 seconds

all-MiniLM-L6-v2 with a head of three classes, whose numbers are drawn by chance: they cost what learned ones do. Texts
have 5 to 40 words; each request asks for one.
"""

import argparse
import asyncio
import json
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

import httpx2 as httpx
import torch
from safetensors.torch import load_file, save_file

from benchmarks.engine.client import percentile, prompts
from tests.goldens.embeddings import fetched
from tests.goldens.replay import serving

LABELS = ("complaint", "question", "praise")


def classifier(folder: Path) -> Path:
    """The encoder's folder with a head."""
    for name in ("tokenizer.json", "sentence_bert_config.json"):
        shutil.copy(fetched() / name, folder / name)
    config = json.loads((fetched() / "config.json").read_bytes())
    config |= {"architectures": ["BertForSequenceClassification"], "id2label": dict(enumerate(LABELS))}
    (folder / "config.json").write_text(json.dumps(config))
    weights = {f"bert.{name}": tensor for name, tensor in load_file(fetched() / "model.safetensors").items()}
    generator = torch.Generator().manual_seed(1)
    weights["classifier.weight"] = torch.randn(len(LABELS), config["hidden_size"], generator=generator)
    weights["classifier.bias"] = torch.zeros(len(LABELS))
    save_file(weights, folder / "model.safetensors")
    return folder


async def ask(client: httpx.AsyncClient, text: str) -> float | None:
    """Seconds until the answer; None where there was none."""
    began = time.perf_counter()
    answer = await client.post("/classify", json={"input": text})
    return time.perf_counter() - began if answer.status_code == 200 else None


async def load(url: str, rate: float, seconds: float) -> list[float | None]:
    """Requests whether or not the earlier are answered."""
    draw = random.Random(2)  # noqa: S311 - draws pauses
    async with httpx.AsyncClient(base_url=url, timeout=30, limits=httpx.Limits(max_connections=512)) as client:
        await asyncio.gather(*(ask(client, text) for text in prompts(32, 1, (5, 40))))
        tasks = []
        for text in prompts(round(rate * seconds), 2, (5, 40)):
            tasks.append(asyncio.ensure_future(ask(client, text)))
            await asyncio.sleep(draw.expovariate(rate))
        return list(await asyncio.gather(*tasks))


def main() -> int:
    """Prints what clients saw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=float, default=50, help="requests a second (default 50)")
    parser.add_argument("--seconds", type=float, default=20, help="default 20")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with serving(None, lambda: classifier(folder)) as url:
            seen = asyncio.run(load(url, asked.rate, asked.seconds))
    times = [one * 1000 for one in seen if one is not None]
    shown = {f"p{round(100 * share)}_ms": round(percentile(times, share), 1) for share in (0.5, 0.95, 0.99)}
    sys.stdout.write(json.dumps({"requests": len(seen), "failed": len(seen) - len(times), **shown}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
