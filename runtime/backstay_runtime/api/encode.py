"""/v1/embeddings and /classify: texts in, vectors or classes out."""

import base64
import struct
from typing import Any

from fastapi import Request
from starlette.responses import JSONResponse, Response

from backstay_runtime.api import body, errors
from backstay_runtime.api.disconnect import unless_gone
from backstay_runtime.api.errors import ApiError
from backstay_runtime.api.record import Record
from backstay_runtime.api.schemas import MAX_TEXTS, ClassifyRequest, EmbeddingsRequest, EncodeRequest
from backstay_runtime.api.service import Encoder, Service
from backstay_runtime.encoding import EncoderDeadError, EncoderFullError, NotFiniteError
from backstay_runtime.telemetry.tracker import Tracker

Ids = list[int]


async def embed(request: Request, service: Service, record: Record) -> Response:
    """A vector for each text, in OpenAI's form."""
    asked = await body.read(request, EmbeddingsRequest)
    encoder = _encoder(service, asked, "embeddings", classifies=False)
    if asked.dimensions not in (None, encoder.width):
        raise errors.invalid(
            f"dimensions: this model's vectors have {encoder.width} numbers; leave it out or write {encoder.width}",
            "dimensions",
        )
    texts = _texts(asked.input, encoder)
    vectors = await _encoded(request, service, record, texts)
    as_text = asked.encoding_format == "base64"
    data = [
        {"object": "embedding", "index": index, "embedding": _base64(vector) if as_text else vector}
        for index, vector in enumerate(vectors)
    ]
    return JSONResponse({"object": "list", "data": data, "model": service.identity.name, "usage": _usage(texts)})


async def classify(request: Request, service: Service, record: Record) -> Response:
    """Each text's likeliest class, and the scores of all that were asked for."""
    asked = await body.read(request, ClassifyRequest)
    encoder = _encoder(service, asked, "classes", classifies=True)
    texts = _texts(asked.input, encoder)
    data = []
    for index, scores in enumerate(await _encoded(request, service, record, texts)):
        ranked = sorted(zip(encoder.labels, scores, strict=True), key=lambda pair: -pair[1])
        best = ranked[0]
        shown = dict(ranked[: asked.top_k])
        data.append({"index": index, "label": best[0], "score": best[1], "scores": shown})
    return JSONResponse({"object": "list", "data": data, "model": service.identity.name, "usage": _usage(texts)})


def _encoder(service: Service, asked: EncodeRequest, what: str, *, classifies: bool) -> Encoder:
    """The encoder, if it gives what was asked for."""
    encoder = service.need_encoder(what)
    service.check_model(asked.model)
    if bool(encoder.labels) != classifies:
        other = "/classify" if encoder.labels else "/v1/embeddings"
        raise errors.invalid(f"this model gives no {what}: ask {other}", code="wrong_task")
    return encoder


def _texts(value: str | list[str] | list[int] | list[list[int]], encoder: Encoder) -> list[Ids]:
    """The texts' token ids. Raises ApiError naming the first that is wrong."""
    several = value if isinstance(value, list) and not (value and isinstance(value[0], int)) else [value]
    if not several:
        raise errors.invalid("input: write a text, a list of texts, or token ids; it must not be empty", "input")
    if len(several) > MAX_TEXTS:
        raise errors.invalid(f"input: {len(several)} texts are more than the {MAX_TEXTS} allowed", "input")
    written = [text for text in several if isinstance(text, str)]
    if len(written) < len(several):
        return [_checked_ids(ids, place, encoder) for place, ids in enumerate(several)]
    for place, text in enumerate(written):
        if not text.strip():
            raise errors.invalid(f"input[{place}]: it is empty, or white space only", f"input[{place}]")
    return encoder.tokenizer.encode(written)


def _checked_ids(ids: Any, place: int, encoder: Encoder) -> Ids:
    param = f"input[{place}]"
    if not isinstance(ids, list) or not ids:
        raise errors.invalid(f"{param}: texts and token ids cannot be mixed, and neither may be empty", param)
    wrong = next((id_ for id_ in ids if not 0 <= id_ < encoder.vocabulary), None)
    if wrong is not None:
        raise errors.invalid(f"{param}: {wrong} is no token id; they run from 0 to {encoder.vocabulary - 1}", param)
    if len(ids) > encoder.tokenizer.longest:
        raise errors.invalid(
            f"{param}: it has {len(ids)} tokens, and this model reads at most {encoder.tokenizer.longest}",
            param,
            code="context_length_exceeded",
        )
    return ids


async def _encoded(request: Request, service: Service, record: Record, texts: list[Ids]) -> list[list[float]]:
    record.prompt_tokens = sum(len(text) for text in texts)
    record.tracker = Tracker(service.metrics, record.arrival, 0, record.prompt_tokens)
    loop = service.need_encoder("answers").loop
    try:
        return await unless_gone(request.receive, loop.encode(texts))
    except EncoderFullError as why:
        raise ApiError(503, f"the queue is full: {why}", code="queue_full", retry_after=why.retry_after) from None
    except EncoderDeadError as why:
        raise ApiError(503, f"the encoder has stopped: {why}", code="engine_dead", retry_after=10) from None
    except NotFiniteError as why:
        raise ApiError(500, str(why), code="non_finite_logits") from None


def _usage(texts: list[Ids]) -> dict[str, int]:
    tokens = sum(len(text) for text in texts)
    return {"prompt_tokens": tokens, "total_tokens": tokens}


def _base64(vector: list[float]) -> str:
    """Little-endian float32, as OpenAI's clients read it."""
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
