"""The alerts that fire, by resource, and who waits until a pass has seen them.

They are in memory only. An answer is given after the pass that saw the alert: what followed from it stands in the
cluster by then, and what was not answered is sent again by Alertmanager.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from backstay_operator.alerts import payload
from backstay_operator.alerts.payload import About, Reported
from backstay_operator.queue import Key
from backstay_operator.rollout.observation import FiringAlert, Serving

MAX_FIRING = 50
"""Alerts of one resource that are kept; the oldest are dropped first."""


@dataclass
class _Place:
    """What is known of one resource."""

    firing: dict[str, FiringAlert] = field(default_factory=dict)
    version: int = 0
    """Counts the changes."""
    seen: int = 0
    """The version that the last ended pass had before it."""
    active: Serving | None = None
    """What served when that pass began; None: nothing did."""
    exists: bool = False
    """Whether a pass has found the resource."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(frozen=True, slots=True)
class Ignored:
    """An alert that nothing follows from, and why."""

    fingerprint: str
    reason: str


class Board:
    """`wake` asks for a pass over a resource; `namespaces` are those that are watched, none: all."""

    def __init__(self, wake: Callable[[Key], None], namespaces: tuple[str, ...] = ()) -> None:
        self._wake = wake
        self._namespaces = namespaces
        self._places: dict[Key, _Place] = {}

    async def report(self, alerts: tuple[Reported, ...]) -> tuple[Ignored, ...]:
        """Takes the alerts in, and returns when a pass over each resource has seen them: what was ignored.

        Cancelled from outside where that takes too long.
        """
        ignored, told = [], []
        for alert in alerts:
            whom = payload.about(alert)
            if isinstance(whom, About) and self._namespaces and whom.namespace not in self._namespaces:
                whom = f"namespace {whom.namespace} is not watched"
            if isinstance(whom, str):
                ignored.append(Ignored(alert.fingerprint, whom))
            else:
                self._take(alert, whom)
                told.append((alert, whom))
        for key in dict.fromkeys(Key(whom.namespace, whom.name) for _, whom in told):
            await self._passed(key)
        for alert, whom in told:
            reason = self._ignores(alert, whom)
            if reason:
                ignored.append(Ignored(alert.fingerprint, reason))
        return tuple(ignored)

    def firing(self, key: Key) -> tuple[int, tuple[FiringAlert, ...]]:
        """What a pass that begins has to see, and the version that it hands to `passed`."""
        place = self._places.get(key)
        return (0, ()) if place is None else (place.version, tuple(place.firing.values()))

    def passed(self, key: Key, version: int, active: Serving | None, *, exists: bool = True) -> None:
        """A pass ended that had seen the alerts of that version. `active`: what served when it began."""
        if not exists:
            gone = self._places.pop(key, None)
            if gone is not None:
                gone.seen = gone.version
                gone.changed.set()
            return
        place = self._places.setdefault(key, _Place())
        place.seen, place.active, place.exists = version, active, True
        place.changed.set()

    def _take(self, alert: Reported, whom: About) -> None:
        place = self._places.setdefault(Key(whom.namespace, whom.name), _Place())
        place.version += 1
        place.firing.pop(alert.fingerprint, None)
        if alert.status == "firing":
            place.firing[alert.fingerprint] = payload.firing(alert, whom.digest)
        while len(place.firing) > MAX_FIRING:
            del place.firing[next(iter(place.firing))]

    async def _passed(self, key: Key) -> None:
        place = self._places[key]
        wanted = place.version
        self._wake(key)
        while place.seen < wanted:
            place.changed.clear()
            await place.changed.wait()

    def _ignores(self, alert: Reported, whom: About) -> str:
        place = self._places.get(Key(whom.namespace, whom.name))
        if place is None or not place.exists:
            return f"there is no ModelDeployment {whom.namespace}/{whom.name}"
        if place.active is None or place.active.digest != whom.digest:
            return f"{whom.digest} is not what serves"
        since = place.active.since
        if alert.status == "firing" and since is not None and alert.startsAt < since:
            return f"it began at {alert.startsAt.isoformat()}, before {whom.digest} served at {since.isoformat()}"
        return ""
