"""Replays reference answers against the runtime on the converted model, over HTTP.

uv run python tests/goldens/replay.py                    the files beside this one
uv run python tests/goldens/replay.py --goldens FOLDER   other files of the same form
uv run python tests/goldens/replay.py --url http://…     a server that runs already
"""

import argparse
import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))  # so that the file runs by its path too

import httpx2 as httpx  # noqa: E402
from backstay_cli.convert import ConvertError, convert_gguf, fetch_smollm2  # noqa: E402
from backstay_cli.convert.fetch import model_cache  # noqa: E402
from backstay_contract.names import Env  # noqa: E402

from tests.goldens.checks import Asker, Check  # noqa: E402
from tests.goldens.compare import DifferentError, NotComparableError, Tolerance  # noqa: E402
from tests.goldens.embeddings import EmbeddingAsker, fetched  # noqa: E402

START_SECONDS = 300.0
CHECK_SECONDS = 300.0


def main() -> int:
    """Returns 1 when a check failed, 2 when none could be made."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--goldens", type=Path, default=HERE, help="folder with *.json reference files")
    parser.add_argument("--url", help="a server that runs already; else one is started")
    parser.add_argument("--parallel", type=int, default=8, help="requests in flight (default 8)")
    parser.add_argument("-v", "--verbose", action="store_true", help="show passed checks too")
    arguments = parser.parse_args()
    files = [(path.name, json.loads(path.read_bytes())) for path in sorted(arguments.goldens.glob("*.json"))]
    kinds = [kind for kind in FOLDERS if any(golden.get("kind") == kind for _, golden in files)]
    if not kinds or (arguments.url and len(kinds) > 1):
        wanted = " or ".join(FOLDERS)
        print(f"{arguments.goldens} must hold reference files of kind {wanted}; with --url, of one", file=sys.stderr)
        return 2
    count: Counter[str] = Counter()
    try:
        for kind in kinds:
            goldens = [(name, golden) for name, golden in files if golden.get("kind") == kind]
            with serving(arguments.url, FOLDERS[kind]) as url:
                count += asyncio.run(replay(url, goldens, arguments.parallel, verbose=arguments.verbose))
    except (ConvertError, RuntimeError) as why:
        print(why, file=sys.stderr)
        return 2
    skipped = f", {count['skipped']} not comparable" if count["skipped"] else ""
    print(f"{count['passed']} passed, {count['failed']} failed{skipped}")
    return 1 if count["failed"] else 0


def converted() -> Path:
    """The model's folder, fetched and converted unless it is in the cache."""
    folder = model_cache() / "smollm2-135m-instruct"
    if not folder.is_dir():
        print("fetching and converting SmolLM2-135M-Instruct …", flush=True)
        convert_gguf(fetch_smollm2(model_cache()), folder, lambda _name, _done, _total: None)
    return folder


FOLDERS = {"completions": converted, "embeddings": fetched}
"""What each kind of reference file is about."""


@contextlib.contextmanager
def serving(url: str | None, model: Callable[[], Path] = converted) -> Iterator[str]:
    """The URL of a server; one that is started here, on the folder of `model`, ends with the block."""
    if url is not None:
        yield url.rstrip("/").removesuffix("/v1")
        return
    folder, port, control = model(), free_port(), free_port()
    with tempfile.TemporaryDirectory() as place:
        environment = {
            **os.environ,
            Env.HOST: "127.0.0.1",
            Env.PORT: str(port),
            Env.CONTROL_PORT: str(control),
            Env.GRACE_SECONDS: "0",
            Env.TERMINATION_LOG: str(Path(place) / "termination"),
        }
        log = (Path(place) / "log").open("w+b")
        command = [sys.executable, "-m", "backstay_runtime", "serve", "--model", str(folder)]
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)
        try:
            wait_until_ready(f"http://127.0.0.1:{port}", process, Path(log.name))
            yield f"http://127.0.0.1:{port}"
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)
            log.close()


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def wait_until_ready(url: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    """Returns when the server says that it is ready."""
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        if process.poll() is not None:
            raise RuntimeError(f"the server ended with {process.returncode}:\n{log.read_text()[-2000:]}")
        with contextlib.suppress(httpx.HTTPError):
            if httpx.get(f"{url}/readyz", timeout=10).status_code == 200:
                return
        time.sleep(0.2)
    raise RuntimeError(f"the server is not ready after {START_SECONDS:g} s:\n{log.read_text()[-2000:]}")


async def replay(url: str, goldens: list[tuple[str, Any]], parallel: int, *, verbose: bool) -> Counter[str]:
    """Makes all checks, `parallel` at a time, and prints those that failed."""
    count: Counter[str] = Counter()
    async with httpx.AsyncClient(base_url=url, timeout=CHECK_SECONDS) as client:
        for name, golden in goldens:
            checks = (
                Asker(client, golden, Tolerance()).checks()
                if golden["kind"] == "completions"
                else EmbeddingAsker(client, golden).checks()
            )
            async for check, result, said in _made(list(checks), parallel):
                count[result] += 1
                if verbose or result != "passed":
                    print(f"{result:<8}{name} {check.name}{': ' + said if said else ''}", flush=True)
    return count


async def _made(checks: list[Check], parallel: int) -> AsyncIterator[tuple[Check, str, str]]:
    """Each check with its result and a remark, in order."""
    room = asyncio.Semaphore(parallel)

    async def make(check: Check) -> tuple[Check, str, str]:
        async with room:
            try:
                return check, "passed", await check.ask()
            except NotComparableError as why:
                return check, "skipped", str(why)
            except DifferentError as why:
                return check, "failed", str(why)
            except (httpx.HTTPError, KeyError, IndexError, TypeError, ValueError) as why:
                return check, "failed", f"{type(why).__name__}: {why}"

    tasks = [asyncio.ensure_future(make(check)) for check in checks]
    for task in tasks:
        yield await task


if __name__ == "__main__":
    sys.exit(main())
