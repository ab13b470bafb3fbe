"""Puts a model, its cache, the engine and its thread together."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from backstay_contract.manifest import EvaluationItem
from backstay_contract.termination import GaveUp

from backstay_runtime import machine, speed
from backstay_runtime.api.service import Loaded, nothing
from backstay_runtime.engine import Engine
from backstay_runtime.evaluation.evaluator import Evaluator
from backstay_runtime.evaluation.texts import tokenize
from backstay_runtime.folder import GiveUpError
from backstay_runtime.kv.blocks import PROBE_BLOCK, RESERVED_BLOCKS, BlockPool
from backstay_runtime.loop import EngineLoop
from backstay_runtime.model.config import LlamaConfig
from backstay_runtime.model.errors import ModelError
from backstay_runtime.model.linear import Dtype, Quantization, computed_in, held_as
from backstay_runtime.model.load import load_llama, read_config, weight_needs
from backstay_runtime.model.placement import Needs, place
from backstay_runtime.runner import Runner
from backstay_runtime.schedule.admission import Admission
from backstay_runtime.schedule.batching import Batching
from backstay_runtime.schedule.scheduler import Scheduler
from backstay_runtime.startup import Laps, Step
from backstay_runtime.telemetry.metrics import Metrics
from backstay_runtime.text.template import ChatTemplate, load_template
from backstay_runtime.text.tokenizer import Tokenizer

_log = logging.getLogger(__name__)

BLOCK_SIZE = 16
"""Tokens in a block: small enough that the half-filled last ones waste little, large enough to copy as a whole."""

STEP_TOKENS = 256
"""Tokens computed in a step; a prompt's chunk of them delays the others' next token by some tenths of a second."""

_CACHE_SHARE = 0.6
"""Of the memory that is left after loading: the rest is for activations, logits and requests."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much may be asked of the engine at once."""

    max_model_len: int
    max_num_seqs: int
    queue_length: int
    blocks: int
    """Of the cache, reserved ones included."""


@dataclass(frozen=True, slots=True)
class Model:
    """A loaded model, not yet running."""

    engine: Engine
    sizes: Sizes
    tokenizer: Tokenizer
    template: ChatTemplate | None
    vocabulary: int
    evaluator: Evaluator | None = None
    close: Callable[[], None] = nothing
    """Ends what it holds beside its thread."""
    seconds: Mapping[Step, float] = field(default_factory=dict)
    """That each step of loading took."""


def plan_sizes(
    config: LlamaConfig,
    memory: int,
    *,
    token_bytes: int,
    max_model_len: int | None,
    max_num_seqs: int,
    queue_length: int,
) -> Sizes:
    """Fits the cache into `memory` bytes; a token takes `token_bytes` of it. Raises GiveUpError when a wanted context
    does not fit; pure."""
    wanted = config.max_positions if max_model_len is None else max_model_len
    if wanted > config.max_positions:
        raise GiveUpError(
            GaveUp.SETTINGS_INVALID,
            f"maxModelLen {wanted} is more than the model's {config.max_positions} positions: ask for less",
        )
    affordable = int(memory * _CACHE_SHARE) // (token_bytes * BLOCK_SIZE) - RESERVED_BLOCKS
    if max_model_len is None:
        wanted = min(wanted, affordable * BLOCK_SIZE)
    if affordable * BLOCK_SIZE < wanted or wanted < 2:
        raise GiveUpError(
            GaveUp.OUT_OF_MEMORY,
            f"the cache for maxModelLen {wanted} needs {wanted * token_bytes >> 20} MiB and "
            f"{int(memory * _CACHE_SHARE) >> 20} MiB are left for it: raise the memory limit or lower maxModelLen",
        )
    most = max_num_seqs * -(-wanted // BLOCK_SIZE)
    return Sizes(wanted, max_num_seqs, queue_length, min(most, affordable) + RESERVED_BLOCKS)


Spans = list[tuple[torch.device, range]]
MemoryLeft = Callable[[torch.device], int]


def dispatch(needs: Needs, devices: Sequence[torch.device], left: MemoryLeft) -> Spans:
    """Which layers go to which device. One device takes all, and says by itself when it is full."""
    if len(devices) == 1:
        return [(devices[0], range(len(needs.layers)))]
    return list(zip(devices, place(needs, [left(one) for one in devices]), strict=False))


def cache_memory(spans: Spans, left: MemoryLeft) -> int:
    """Bytes that a cache over all layers may have, so that each device has room for its own layers' part of it."""
    total = sum(len(layers) for _, layers in spans)
    return min(left(device) * total // len(layers) for device, layers in spans if layers)


def least_bytes(folder: Path, dtype: Dtype, quantization: Quantization) -> int:
    """Memory that the folder's model needs at least: its weights, and the cache of one short sequence."""
    config = read_config(folder)
    device = machine.device()
    weights = weight_needs(folder, dtype, quantization, device).bytes
    return weights + int((1 + RESERVED_BLOCKS) * BLOCK_SIZE * token_bytes(config, dtype, device) / _CACHE_SHARE)


def token_bytes(config: LlamaConfig, dtype: Dtype, device: torch.device) -> int:
    """What one token takes of the cache, whose numbers have the type that is computed in."""
    return config.kv_bytes_per_token(computed_in(dtype, device).itemsize)


def load(
    folder: Path,
    *,
    dtype: Dtype,
    quantization: Quantization = Quantization.NONE,
    force_quantization: bool = False,
    max_model_len: int | None,
    max_num_seqs: int,
    queue_length: int,
    evaluation: Sequence[EvaluationItem] = (),
    batching: Batching = Batching.CONTINUOUS,
    digest: str = "",
) -> Model:
    """Loads a model onto this machine's device. Raises GiveUpError with a reason."""
    device, laps = machine.device(), Laps()
    if not force_quantization and (slower := speed.slower(held_as(dtype, quantization, device), device)):
        raise GiveUpError(GaveUp.SETTINGS_INVALID, slower)
    try:
        config = read_config(folder)
        tokenizer = Tokenizer(folder)
        template = load_template(folder)
        texts, problem = tokenize(evaluation, tokenizer.encode, config.max_positions)
        longest = max((len(text.tokens) for text in texts), default=0)
        positions = min(max(longest, max_model_len or config.max_positions), config.max_positions)
        a_token = token_bytes(config, dtype, device)
        needs = weight_needs(folder, dtype, quantization, device).with_cache(BLOCK_SIZE, a_token)
        spans = dispatch(needs, machine.devices(), machine.device_memory_left)
        laps.end(Step.PREPARE)
        llama = load_llama(
            folder, dtype=dtype, quantization=quantization, device=device, positions=positions, spans=spans
        )
        laps.end(Step.WEIGHTS)
    except ModelError as why:
        raise GiveUpError(GaveUp.MODEL_INVALID, str(why)) from why
    except (MemoryError, torch.OutOfMemoryError) as why:
        raise GiveUpError(GaveUp.OUT_OF_MEMORY, f"the weights do not fit into memory: {why}") from why
    memory = cache_memory(spans, machine.device_memory_left)
    own = -(-longest // BLOCK_SIZE)
    memory -= own * BLOCK_SIZE * a_token
    sizes = plan_sizes(
        config,
        memory,
        token_bytes=a_token,
        max_model_len=max_model_len,
        max_num_seqs=max_num_seqs,
        queue_length=queue_length,
    )
    # The evaluation's blocks lie behind the pool's: users cannot take them, nor it theirs.
    runner = Runner(llama, blocks=sizes.blocks + own, block_size=BLOCK_SIZE, threads=torch.get_num_threads())
    evaluator = Evaluator(runner, texts, range(sizes.blocks, sizes.blocks + own), problem=problem)
    with torch.inference_mode():
        runner.warm_up(PROBE_BLOCK)
    laps.end(Step.WARM_UP)
    scheduler = Scheduler(
        BlockPool(sizes.blocks, BLOCK_SIZE),
        max_sequences=max_num_seqs,
        step_tokens=max(STEP_TOKENS, max_num_seqs),
        batching=batching,
    )
    engine = Engine(runner, scheduler, config.eos, digest)
    return Model(
        engine,
        sizes,
        tokenizer,
        template,
        config.vocabulary,
        evaluator if evaluation else None,
        runner.close,
        laps.seconds,
    )


def start(model: Model, metrics: Metrics, target_seconds: float | None = None) -> Loaded:
    """Starts the engine's thread; called on the event loop. `target_seconds`: what an answer should take."""
    admission = Admission(
        max_sequences=model.sizes.max_num_seqs, queue_length=model.sizes.queue_length, target_seconds=target_seconds
    )
    gauges = Gauges(metrics, admission)
    metrics.set_start_seconds(model.seconds)
    metrics.kv_total.set(model.engine.scheduler.pool.capacity)
    loop = EngineLoop(model.engine, admission, gauges.read, model.evaluator)
    if model.evaluator is not None:
        evaluator = model.evaluator
        metrics.evaluation.read = lambda: evaluator.state
    loop.start()
    return Loaded(
        loop=loop,
        tokenizer=model.tokenizer,
        template=model.template,
        vocabulary=model.vocabulary,
        max_model_len=model.sizes.max_model_len,
        created=int(time.time()),
        eos=model.engine.eos,
        close=model.close,
    )


class Gauges:
    """Copies the engine's counts into metrics after each step, on the engine's thread."""

    def __init__(self, metrics: Metrics, admission: Admission) -> None:
        self._metrics = metrics
        self._admission = admission
        self._preemptions, self._prefix_tokens, self._prefix_hits = 0, 0, 0
        metrics.admitted.set(admission.limit)

    def read(self, engine: Engine) -> None:
        """One reading."""
        scheduler, metrics = engine.scheduler, self._metrics
        metrics.running.set(len(scheduler.running))
        metrics.waiting.set(len(scheduler.waiting))
        metrics.admitted.set(self._admission.limit)
        metrics.kv_used.set(scheduler.pool.used)
        if engine.batch:
            metrics.batch_size.observe(engine.batch)
        if engine.preemptions > self._preemptions:
            metrics.preemptions.inc(engine.preemptions - self._preemptions)
            self._preemptions = engine.preemptions
        if scheduler.prefix_tokens > self._prefix_tokens:
            metrics.prefix_tokens.inc(scheduler.prefix_tokens - self._prefix_tokens)
            metrics.prefix_hits.inc(scheduler.prefix_hits - self._prefix_hits)
            self._prefix_tokens, self._prefix_hits = scheduler.prefix_tokens, scheduler.prefix_hits
