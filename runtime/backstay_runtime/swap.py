"""Hot swap: the next model is loaded beside the present one and answers what comes then; the old one finishes."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from backstay_contract.manifest import Manifest
from backstay_contract.metric import MetricName
from backstay_contract.termination import GaveUp

from backstay_runtime.api.errors import ApiError
from backstay_runtime.api.service import Loaded, Served, Service
from backstay_runtime.folder import GiveUpError
from backstay_runtime.identity import Identity
from backstay_runtime.telemetry import logs
from backstay_runtime.telemetry.metrics import Metrics

_log = logging.getLogger(__name__)

RELEASE_SECONDS = 30.0
"""After its last request the old model stays for this long, so that its last counts are scraped, and a request that was
about to be handed in finds it."""

_LOOK_SECONDS = 0.05
_STOP_SECONDS = 5.0


class Phase(StrEnum):
    """How far a swap is."""

    NONE = "none"
    LOADING = "loading"
    DRAINING = "draining"
    """The new model answers; the old one finishes what it has begun."""
    DONE = "done"
    FAILED = "failed"
    """Nothing was changed."""


Start = Callable[[Metrics], Loaded]
"""Starts a loaded model's thread, on the event loop."""


@dataclass(frozen=True, slots=True)
class Ways:
    """How models are found, measured and loaded; each may raise GiveUpError, and may take its time."""

    open: Callable[[str], tuple[Path, Manifest]]
    """The verified folder of a digest."""
    room: Callable[[Path], tuple[int, int]]
    """Bytes that the folder's model needs at least, and bytes that are free."""
    load: Callable[[Path, Manifest, str], Start]
    limits: Callable[[Manifest], Mapping[MetricName, float]]


class Swapper:
    """One swap at a time. Lives on the event loop."""

    def __init__(self, service: Service, ways: Ways, runtime_version: str, *, release: float = RELEASE_SECONDS) -> None:
        """`release`: seconds for which an old model stays after its last request."""
        self._service = service
        self._ways = ways
        self._runtime_version = runtime_version
        self._release = release
        self._phase = Phase.NONE
        self._digest = ""
        self._problem: str | None = None
        self._task: asyncio.Task[None] | None = None

    def state(self) -> dict[str, Any]:
        """For the control port."""
        return {"state": self._phase, "digest": self._digest or None, "problem": self._problem}

    def begin(self, digest: str, version: str | None) -> None:
        """Starts to swap. Raises ApiError 409 while another swap runs, or where there is nothing to swap."""
        service = self._service
        if service.terminating or service.loaded is None:
            why = "is ending" if service.terminating else "has no model yet that generates text"
            raise ApiError(409, f"the process {why}", code="not_swappable")
        if self._task is not None and not self._task.done():
            raise ApiError(409, f"the swap to {self._digest} is {self._phase}; ask again later", code="swapping")
        if digest == service.identity.digest:
            raise ApiError(409, f"{digest} answers already", code="same_digest", param="digest")
        self._phase, self._digest, self._problem = Phase.LOADING, digest, None
        self._task = asyncio.ensure_future(self._swap(digest, version))

    async def wait(self) -> None:
        """Returns when the swap that runs is over."""
        if self._task is not None:
            await self._task

    async def _swap(self, digest: str, version: str | None) -> None:
        try:
            manifest, start = await asyncio.to_thread(self._load, digest)
        except GiveUpError as why:
            self._fail(str(why))
            return
        except Exception as why:
            _log.exception("a model could not be swapped in")
            self._fail(f"the next model could not be loaded: {type(why).__name__}")
            return
        if self._service.terminating:
            self._fail("the process is ending")
            return
        limits = self._ways.limits(manifest)
        identity = Identity(self._service.identity.name, version or manifest.version, digest)
        served = Served(identity, Metrics(identity, limits, self._runtime_version))
        # Between two steps of either engine: each has a thread and a cache of its own, and no request changes over.
        loaded = start(served.metrics)
        old = self._service.replace(replace(loaded, served=served), served, limits)
        self._phase = Phase.DRAINING
        _log.info("swapped", extra=logs.with_fields(digest=digest, version=served.identity.version))
        if old is not None:
            await self._retire(old)
        self._phase = Phase.DONE

    def _load(self, digest: str) -> tuple[Manifest, Start]:
        folder, manifest = self._ways.open(digest)
        needed, free = self._ways.room(folder)
        if needed > free:
            raise GiveUpError(
                GaveUp.OUT_OF_MEMORY,
                f"the next model needs {needed >> 20} MiB beside the present one, and {free >> 20} MiB are free: raise "
                "the memory limit, or roll it out with strategy BlueGreen or Recreate",
            )
        return manifest, self._ways.load(folder, manifest, digest)

    async def _retire(self, old: Loaded) -> None:
        """Waits until the old model has nothing left to do, and lets go of it."""
        while old.loop.open and old.loop.dead is None:  # noqa: ASYNC110 - its thread sets no event
            await asyncio.sleep(_LOOK_SECONDS)
        await asyncio.sleep(self._release)
        stopped = await asyncio.to_thread(old.loop.stop, _STOP_SECONDS)
        self._service.retiring.remove(old)
        if stopped:
            old.close()
        digest = self._service.served_by(old).identity.digest
        _log.info("the old model is released", extra=logs.with_fields(digest=digest))

    def _fail(self, problem: str) -> None:
        self._phase, self._problem = Phase.FAILED, problem
        _log.error("the swap failed, and nothing was changed: %s", problem)
