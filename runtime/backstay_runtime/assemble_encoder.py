"""Puts an encoder, its batches and its thread together."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from backstay_contract.termination import GaveUp

from backstay_runtime import machine
from backstay_runtime.api.service import Encoder
from backstay_runtime.encoding import EncoderLoop
from backstay_runtime.folder import GiveUpError
from backstay_runtime.model.bert import Bert
from backstay_runtime.model.bert_load import load_bert, read_pooling
from backstay_runtime.model.errors import ModelError
from backstay_runtime.schedule.packing import Packer
from backstay_runtime.startup import Laps, Step
from backstay_runtime.telemetry.metrics import Metrics
from backstay_runtime.text.pieces import PieceTokenizer

BATCH_TOKENS = 1024
"""Padded tokens of a batch: more bring little on two cores, and every text waits for the whole batch."""

MOST_TEXTS = 32
MOST_WAIT = 0.010
"""Seconds for which a text may wait for company."""


@dataclass(frozen=True, slots=True)
class EncoderModel:
    """A loaded encoder, not yet running."""

    bert: Bert
    tokenizer: PieceTokenizer
    seconds: Mapping[Step, float]
    """That each step of loading took."""


def load(folder: Path, *, max_model_len: int | None) -> EncoderModel:
    """Loads an encoder onto this machine's device and warms it up. Raises GiveUpError with a reason."""
    laps = Laps()
    try:
        bert = load_bert(folder, machine.device())
        longest = read_pooling(folder, bert.config).max_length
        if max_model_len is not None and max_model_len > longest:
            raise GiveUpError(
                GaveUp.SETTINGS_INVALID, f"maxModelLen {max_model_len} is more than the model's {longest}: ask for less"
            )
        tokenizer = PieceTokenizer(folder, max_model_len or longest)
    except ModelError as why:
        raise GiveUpError(GaveUp.MODEL_INVALID, str(why)) from why
    except (MemoryError, torch.OutOfMemoryError) as why:
        raise GiveUpError(GaveUp.OUT_OF_MEMORY, f"the weights do not fit into memory: {why}") from why
    laps.end(Step.WEIGHTS)
    with torch.inference_mode():
        for width in (1, 16, tokenizer.longest):
            bert([[0] * width])
    laps.end(Step.WARM_UP)
    return EncoderModel(bert, tokenizer, laps.seconds)


def start(model: EncoderModel, metrics: Metrics, queue_length: int) -> Encoder:
    """Starts the encoder's thread; called on the event loop."""
    packer = Packer(budget=BATCH_TOKENS, most_texts=MOST_TEXTS, most_wait=MOST_WAIT)

    def told(texts: int, waited: float) -> None:
        metrics.batch_size.observe(texts)
        metrics.queue_seconds.observe(waited)
        metrics.waiting.set(len(packer))

    metrics.set_start_seconds(model.seconds)
    loop = EncoderLoop(model.bert, packer, queue_length=queue_length, told=told)
    loop.start()
    config = model.bert.config
    return Encoder(
        loop=loop,
        tokenizer=model.tokenizer,
        vocabulary=config.vocabulary,
        width=config.hidden,
        labels=config.labels,
        created=int(time.time()),
    )
