"""`serve`: loads a model, answers requests, ends when it is told to."""

import argparse
import asyncio
import gc
import importlib.metadata
import logging
import os
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from backstay_contract import digest as digests
from backstay_contract import profile, termination
from backstay_contract.manifest import EvaluationItem, Manifest
from backstay_contract.metric import MetricName
from backstay_contract.names import Env
from backstay_contract.names import Path as PodPath
from backstay_contract.termination import EXIT_CODES, GaveUp, Termination
from starlette.types import ASGIApp

from backstay_runtime import assemble, assemble_encoder, machine, settings
from backstay_runtime.api.app import create_app, guarded
from backstay_runtime.api.control import create_control
from backstay_runtime.api.service import Service
from backstay_runtime.folder import GiveUpError, open_model
from backstay_runtime.hold import hold
from backstay_runtime.identity import Identity
from backstay_runtime.model.bert_load import is_encoder
from backstay_runtime.model.errors import ModelError
from backstay_runtime.model.placement import MEMORY_FRACTION
from backstay_runtime.rpc.server import RpcServer
from backstay_runtime.server import Ending, listen, make_server, run_servers
from backstay_runtime.settings import Settings, SettingsError
from backstay_runtime.startup import Laps, Step
from backstay_runtime.swap import Start, Swapper, Ways
from backstay_runtime.telemetry import logs
from backstay_runtime.telemetry.metrics import Metrics

_log = logging.getLogger(__name__)

_STUCK_PATIENCE = 2.0  # seconds for the engine's last step


def main(argv: Sequence[str]) -> int:
    """Runs until told to end; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m backstay_runtime serve",
        description="Serves a model over HTTP. Settings come from the environment (BACKSTAY_…).",
    )
    parser.add_argument("--model", type=Path, help="the model's folder, instead of the one that the digest names")
    arguments = parser.parse_args(argv)
    logs.configure()
    try:
        read = settings.read(os.environ, arguments.model)
        _use_processors(read)
        return asyncio.run(serve(read))
    except SettingsError as why:
        return give_up(Termination(reason=GaveUp.SETTINGS_INVALID, message=str(why)), os.environ)
    except GiveUpError as why:
        return give_up(why.termination, os.environ)


def give_up(said: Termination, environment: Mapping[str, str]) -> int:
    """Logs and leaves the reason where the kubelet reads it; returns the exit code that belongs to it."""
    _log.error("gave up: %s", said.message, extra=logs.with_fields(reason=said.reason))
    path = Path(environment.get(Env.TERMINATION_LOG) or PodPath.TERMINATION)
    try:
        path.write_text(termination.write(said), encoding="utf-8")
    except OSError as why:
        _log.warning("the termination log %s cannot be written: %s", path, why)
    return EXIT_CODES[said.reason]


def _use_processors(read: Settings) -> None:
    """Before the first operation: later, the threads' number is fixed."""
    torch.set_num_threads(read.threads or machine.processors())
    torch.set_num_interop_threads(1)


def _check_hardware(read: Settings) -> None:
    differences = profile.differences(read.hardware, machine.hardware())
    if differences:
        raise GiveUpError(GaveUp.HARDWARE_MISMATCH, "; ".join(differences))


async def serve(read: Settings) -> int:
    """Serves on both ports from the start, answering `loading` until the model is there."""
    _check_hardware(read)
    hold(read.folder)
    laps = Laps()
    manifest, digest = await asyncio.to_thread(open_model, read.folder, read.digest)
    laps.end(Step.VERIFY)
    identity = Identity(read.name or manifest.name, read.version or manifest.version, digest)
    runtime_version = importlib.metadata.version("backstay-runtime")
    for metric, why in manifest.unusable(runtime_version).items():
        _log.warning("baseline %s is not used: it %s", metric, why)
    limits = {**manifest.limits(runtime_version), **read.limits}
    metrics = Metrics(identity, limits, runtime_version)
    metrics.set_start_seconds(laps.seconds)
    service = Service(identity, metrics, runtime_version=runtime_version, limits=limits, rules=read.rules)
    ending = Ending(service, read.grace_seconds)
    ending.listen()
    sockets = _listen(read)
    app = create_app(service)
    rpc = await _listen_for_calls(read, service, app)
    http = make_server(app)
    swaps = Swapper(service, _ways(read, runtime_version), runtime_version)
    control = make_server(guarded(create_control(service, read.control_token_sha256, swaps), service))
    over = asyncio.Event()
    serving = asyncio.ensure_future(run_servers([(http, sockets[0]), (control, sockets[1])], over))
    loading = asyncio.ensure_future(_load(read, service, manifest.evaluation))
    told = asyncio.ensure_future(ending.wait())
    try:
        await asyncio.wait({loading, told}, return_when=asyncio.FIRST_COMPLETED)
        if loading.done():
            loading.result()
            await told
    finally:
        over.set()
        told.cancel()
        if rpc is not None:
            await rpc.stop(0)
        await serving
        _end_engine(service, loading)
    _log.info("ended")
    return 0


def _listen(read: Settings) -> list[socket.socket]:
    sockets = []
    for name, port in ((Env.PORT, read.port), (Env.CONTROL_PORT, read.control_port)):
        try:
            sockets.append(listen(read.host, port))
        except OSError as why:
            raise GiveUpError(GaveUp.SETTINGS_INVALID, f"{name} {port} on {read.host}: {why.strerror}") from why
    _log.info(
        "listening",
        extra=logs.with_fields(port=sockets[0].getsockname()[1], control_port=sockets[1].getsockname()[1]),
    )
    return sockets


async def _listen_for_calls(read: Settings, service: Service, app: ASGIApp) -> RpcServer | None:
    if read.grpc_port is None:
        return None
    host = f"[{read.host}]" if ":" in read.host else read.host
    rpc = RpcServer(service, app, f"{host}:{read.grpc_port}")
    try:
        await rpc.start()
    except OSError as why:
        raise GiveUpError(GaveUp.SETTINGS_INVALID, f"{Env.GRPC_PORT} {read.grpc_port}: {why}") from why
    _log.info("listening for gRPC", extra=logs.with_fields(grpc_port=rpc.port))
    return rpc


def _ways(read: Settings, runtime_version: str) -> Ways:
    """Of a hot swap: from the folder of the digest, in which the pull puts it, with this process's own settings."""

    def opened(digest: str) -> tuple[Path, Manifest]:
        folder = read.folder.parent / digests.hex_of(digest)
        return folder, open_model(folder, digest)[0]

    def room(folder: Path) -> tuple[int, int]:
        try:
            needed = assemble.least_bytes(folder, read.dtype, read.quantization)
            return needed, int(machine.device_memory_left(machine.device()) * MEMORY_FRACTION)
        except ModelError as why:
            raise GiveUpError(GaveUp.MODEL_INVALID, str(why)) from why

    def load(folder: Path, manifest: Manifest, digest: str) -> Start:
        model = _decoder(read, folder, manifest.evaluation, digest)
        return lambda metrics: assemble.start(model, metrics, read.target_seconds)

    def limits(manifest: Manifest) -> dict[MetricName, float]:
        return {**manifest.limits(runtime_version), **read.limits}

    return Ways(opened, room, load, limits)


def _decoder(read: Settings, folder: Path, evaluation: Sequence[EvaluationItem], digest: str) -> assemble.Model:
    """The model in the folder, loaded as the settings say: at the start and for a swap alike."""
    return assemble.load(
        folder,
        dtype=read.dtype,
        quantization=read.quantization,
        force_quantization=read.force_quantization,
        max_model_len=read.max_model_len,
        max_num_seqs=read.max_num_seqs,
        queue_length=read.queue_length,
        evaluation=evaluation,
        batching=read.batching,
        digest=digest,
    )


async def _load_encoder(read: Settings, service: Service) -> None:
    began = time.monotonic()
    model = await asyncio.to_thread(assemble_encoder.load, read.folder, max_model_len=read.max_model_len)
    seconds = time.monotonic() - began
    service.metrics.load_seconds.set(seconds)
    service.encoder = assemble_encoder.start(model, service.metrics, read.queue_length)
    _log.info(
        "the encoder is loaded",
        extra=logs.with_fields(
            model=service.identity.name,
            version=service.identity.version,
            digest=service.identity.digest,
            seconds=round(seconds, 3),
            steps={step: round(one, 3) for step, one in model.seconds.items()},
            max_model_len=model.tokenizer.longest,
            labels=len(model.bert.config.labels) or None,
            threads=torch.get_num_threads(),
        ),
    )


async def _load(read: Settings, service: Service, evaluation: Sequence[EvaluationItem]) -> None:
    if _is_encoder(read.folder):
        await _load_encoder(read, service)
        return
    began = time.monotonic()
    model = await asyncio.to_thread(_decoder, read, read.folder, evaluation, service.identity.digest)
    # What was loaded stays: it need not be looked through at every collection.
    gc.collect()
    gc.freeze()
    seconds = time.monotonic() - began
    service.metrics.load_seconds.set(seconds)
    service.loaded = assemble.start(model, service.metrics, read.target_seconds)
    _log.info(
        "the model is loaded",
        extra=logs.with_fields(
            model=service.identity.name,
            version=service.identity.version,
            digest=service.identity.digest,
            seconds=round(seconds, 3),
            steps={step: round(one, 3) for step, one in model.seconds.items()},
            max_model_len=model.sizes.max_model_len,
            cache_tokens=model.sizes.blocks * assemble.BLOCK_SIZE,
            threads=torch.get_num_threads(),
        ),
    )


def _is_encoder(folder: Path) -> bool:
    try:
        return is_encoder(folder)
    except ModelError as why:
        raise GiveUpError(GaveUp.MODEL_INVALID, str(why)) from why


def _end_engine(service: Service, loading: asyncio.Future[None]) -> None:
    """Ends the engine's thread. A load or step that does not end is left behind with the process."""
    stuck = not loading.done()
    there = service.loaded or service.encoder
    if there is not None:
        stuck = not there.loop.stop(_STUCK_PATIENCE)
    if stuck:
        _log.warning("ended while the engine was busy")
        sys.stdout.flush()
        os._exit(0)
