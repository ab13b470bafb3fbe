"""Getting, keeping and giving back the Lease."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime

from backstay_operator import kinds
from backstay_operator.client import ApiError, Client
from backstay_operator.leader import election
from backstay_operator.leader.election import Move, Record, Sighting, Terms

log = logging.getLogger(__name__)


class Leader:
    """One operator's claim. `clock` gives monotonic seconds."""

    def __init__(
        self,
        client: Client,
        namespace: str,
        name: str,
        identity: str,
        terms: Terms,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._terms = terms
        self._clock = clock
        self._sighting: Sighting | None = None
        self._renewed_at: float | None = None
        self._said: str | None = None

    @property
    def leads(self) -> bool:
        """Whether it may act now."""
        return self._renewed_at is not None and self._clock() < self._terms.acting_until(self._renewed_at)

    def leave(self) -> float:
        """Seconds within which a write that begins now must have ended; 0 where none may begin."""
        if self._renewed_at is None or not self.leads:
            return 0.0
        return max(0.0, self._terms.ends_at(self._renewed_at) - self._clock())

    async def acquire(self) -> None:
        """Returns once it leads."""
        while not await self.step():  # noqa: ASYNC110 - nobody but the API server could tell
            await asyncio.sleep(self._terms.retry)
        log.info("leads: holds the lease %s/%s", self._namespace, self._name)

    async def keep(self) -> None:
        """Renews the Lease; returns when it is lost."""
        while self._renewed_at is not None:
            await asyncio.sleep(self._terms.retry)
            await self._renew_within(self._terms.acting_until(self._renewed_at) - self._clock())
        log.warning("leads no more: the lease %s/%s is lost; stands by", self._namespace, self._name)

    async def _renew_within(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, seconds)):
                await self.step()
        if not self.leads:
            self._renewed_at = None

    async def release(self) -> None:
        """Gives the Lease back, so that another takes it at once. Best effort: it ends by itself otherwise."""
        record = self._sighting.record if self._sighting else None
        self._renewed_at = None
        if record is None or record.holder != self._identity:
            return
        try:
            await self._patch(record, election.FREE)
        except ApiError as error:
            log.info("the lease was not given back: %s", error)

    async def step(self) -> bool:
        """One try to get or to renew it; True where it leads afterwards."""
        try:
            if not (self.leads and await self._renewed()):
                await self._look()
        except ApiError as error:
            self._complain(error)
        return self.leads

    async def _renewed(self) -> bool:
        """The usual case: nobody wrote since our own last write, so there is nothing to look at."""
        record = self._sighting.record if self._sighting else None
        if record is None:
            return False
        try:
            await self._hold(record, self._clock())
        except ApiError as error:
            if error.conflict or error.not_found:
                return False
            raise
        return True

    async def _look(self) -> None:
        began = self._clock()
        body = await self._client.get(kinds.LEASE, self._namespace, self._name)
        record = election.read(body) if body is not None else None
        self._sighting = election.sighted(self._sighting, record, self._clock())
        if election.move(self._identity, self._sighting, self._clock()) is Move.WAIT:
            self._renewed_at = None
            self._say(f"stands by: {record.holder if record else ''} leads")
        else:
            await self._hold(record, began)

    async def _hold(self, record: Record | None, began: float) -> None:
        spec = election.held(self._identity, record, self._terms, datetime.now(UTC))
        if record is None:
            body = await self._client.create(kinds.LEASE, election.created(self._namespace, self._name, spec))
        else:
            body = await self._patch(record, spec)
        self._sighting = Sighting(election.read(body), self._clock())
        self._renewed_at = began
        self._said = None

    async def _patch(self, record: Record, spec: election.Json) -> election.Json:
        body = election.patch(record, spec)
        return await self._client.merge_patch(kinds.LEASE, self._namespace, self._name, body)

    def _complain(self, error: ApiError) -> None:
        if error.conflict:
            return  # somebody else was quicker; the next look shows who
        self._say(f"cannot reach the lease {self._namespace}/{self._name}: {error}", logging.WARNING)

    def _say(self, what: str, level: int = logging.INFO) -> None:
        """Once, not at each look."""
        if what != self._said:
            log.log(level, "%s", what)
            self._said = what
