"""From a validated request to the sequences that the engine is asked for. Pure."""

from collections.abc import Mapping, Sequence

from backstay_contract.mode import Mode

from backstay_runtime.api import errors
from backstay_runtime.api.schemas import MAX_PROMPTS, Generation
from backstay_runtime.api.service import DEGRADED_MAX_TOKENS, Loaded
from backstay_runtime.loop import Wish
from backstay_runtime.sampling.params import SamplingParams
from backstay_runtime.text.truncate import MARK, Truncate, fitted

DEFAULT_TIMEOUT = 600.0
"""Seconds from arrival after which an answer is given up."""

Prompt = list[int]


def read_prompts(
    value: object, loaded: Loaded, truncate: Truncate | None = None, answer: int = 1
) -> tuple[list[Prompt], list[str] | None]:
    """The prompts as token ids, and as texts if they came so and are whole.

    With `truncate`, one that leaves no room for `answer` tokens is cut. Raises ApiError naming what is wrong.
    """
    if isinstance(value, str):
        value = [value]
    if isinstance(value, list) and value and all(_is_id(item) for item in value):
        value = [value]
    if not isinstance(value, list) or not value:
        raise errors.invalid("prompt: write a text, a list of texts, or token ids; it must not be empty", "prompt")
    if len(value) > MAX_PROMPTS:
        raise errors.invalid(f"prompt: {len(value)} prompts are more than the {MAX_PROMPTS} allowed", "prompt")
    if all(isinstance(item, str) for item in value):
        prompts = [loaded.tokenizer.encode(text) for text in value]
        texts: list[str] | None = list(value)
    else:
        prompts, texts = [_ids(item, place, loaded) for place, item in enumerate(value)], None
    if truncate is not None:
        prompts, before = _fitted(prompts, loaded, truncate, answer), prompts
        texts = texts if prompts == before else None
    for place, prompt in enumerate(prompts):
        check_length(prompt, loaded, f"prompt[{place}]" if len(prompts) > 1 else "prompt")
    return prompts, texts


def _fitted(prompts: list[Prompt], loaded: Loaded, how: Truncate, answer: int) -> list[Prompt]:
    most = loaded.max_model_len - max(1, min(answer, loaded.max_model_len // 2))
    mark = loaded.tokenizer.encode(MARK, add_special=False)
    return [fitted(prompt, most, mark, how) for prompt in prompts]


def _is_id(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _ids(value: object, place: int, loaded: Loaded) -> Prompt:
    if not isinstance(value, list):
        raise errors.invalid(f"prompt[{place}]: texts and token ids cannot be mixed", "prompt")
    for id_ in value:
        if not _is_id(id_) or not 0 <= id_ < loaded.vocabulary:
            raise errors.invalid(
                f"prompt: {id_!r} is no token id; they run from 0 to {loaded.vocabulary - 1}", "prompt"
            )
    return value


def check_length(prompt: Prompt, loaded: Loaded, param: str) -> None:
    """Refuses a prompt that is empty or leaves no room for a token."""
    if not prompt:
        raise errors.invalid(f"{param}: it has no tokens, and nothing cannot be continued", param)
    if len(prompt) >= loaded.max_model_len:
        raise errors.invalid(
            f"{param}: the prompt has {len(prompt)} tokens, and this server's context holds at most "
            f"{loaded.max_model_len} with at least 1 of them generated",
            param,
            code="context_length_exceeded",
        )


def wishes(
    prompts: Sequence[Prompt],
    request: Generation,
    *,
    arrival: float,
    limit: int,
    mode: Mode,
    logprobs: int | None,
    vocabulary: int,
    prompt_logprobs: bool = False,
    copies: int | None = None,
) -> list[Wish]:
    """n sequences (or `copies`) for each prompt, in the order of the answer's choices.

    `limit`: tokens that may be generated. Raises ApiError 400 for a bias of a token that is none.
    """
    bias = _bias(request.logit_bias or {}, vocabulary)
    deadline = arrival + (request.timeout or DEFAULT_TIMEOUT)
    if mode is Mode.DEGRADED:
        limit = min(limit, DEGRADED_MAX_TOKENS)
    return [
        Wish(
            prompt=prompt,
            params=_params(request, copy, limit, logprobs, bias, prompt_logprobs=prompt_logprobs),
            arrival=arrival,
            deadline=deadline,
            priority=request.priority,
            salt=request.cache_salt,
        )
        for prompt in prompts
        for copy in range(copies or request.n or 1)
    ]


def _bias(given: Mapping[str, float], vocabulary: int) -> tuple[tuple[int, float], ...]:
    for token in given:
        if not (token.isascii() and token.isdigit()) or int(token[:10]) >= vocabulary or len(token) > 10:
            message = f"logit_bias: {token[:40]!r} is no token id; they run from 0 to {vocabulary - 1}"
            raise errors.invalid(message, "logit_bias")
    return tuple((int(token), value) for token, value in given.items())


def fit(prompts: Sequence[Prompt], wanted: int | None, loaded: Loaded) -> int:
    """Tokens that may be generated so that the longest prompt with its answer still fits in the context.

    An answer that ends there says finish_reason `length`, as one that ends at the wanted number does.
    """
    room = loaded.max_model_len - max(len(prompt) for prompt in prompts)
    return room if wanted is None else max(1, min(wanted, room))


def _params(
    request: Generation,
    copy: int,
    limit: int,
    logprobs: int | None,
    bias: tuple[tuple[int, float], ...],
    *,
    prompt_logprobs: bool,
) -> SamplingParams:
    seed: int | str | None = request.seed
    if seed is not None and copy:
        seed = f"{seed}/{copy}"  # each of n choices draws its own numbers
    return SamplingParams(
        max_tokens=limit,
        temperature=_or(request.temperature, 1.0),
        top_k=max(0, request.top_k or 0),
        top_p=_or(request.top_p, 1.0),
        min_p=_or(request.min_p, 0.0),
        repetition_penalty=_or(request.repetition_penalty, 1.0),
        presence_penalty=_or(request.presence_penalty, 0.0),
        frequency_penalty=_or(request.frequency_penalty, 0.0),
        seed=seed,
        logprobs=logprobs,
        prompt_logprobs=prompt_logprobs,
        ignore_eos=request.ignore_eos,
        bias=bias,
        min_tokens=request.min_tokens,
    )


def _or(value: float | None, default: float) -> float:
    return default if value is None else value
