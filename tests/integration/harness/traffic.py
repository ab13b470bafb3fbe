"""Clients of one Service, as kube-proxy would route them."""

import time
from typing import Any

from backstay_contract.names import Label

from .fake_runtime import FakeRuntime

Json = dict[str, Any]


class Traffic:
    """Clients of one Service, and what they met."""

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self._last = time.monotonic()
        self.versions: list[str] = []
        """Versions that answered, in order, without repetition."""
        self.lost = 0
        self.answered = 0
        self.selectors: set[str | None] = set()
        """Colours that the Service selected; None stands for a selector without one, or for no Service."""
        self.flips: list[tuple[float, str | None]] = []
        """When the Service began to select which colour."""

    def selected(self, colour: str | None) -> None:
        """The Service is seen to select the colour."""
        self.selectors.add(colour)
        if not self.flips or self.flips[-1][1] != colour:
            self.flips.append((time.time(), colour))

    def tick(self, selector: Json, ready: list[FakeRuntime]) -> None:
        now = time.monotonic()
        requests = max(1, round((now - self._last) * self._per_second))
        self._last = now
        self.selected(selector.get(Label.COLOUR))
        if selector.get(Label.COLOUR) == "none":
            return
        if not ready:
            self.lost += requests
            return
        self.answered += requests
        for number in range(requests):
            runtime = ready[number % len(ready)]
            runtime.request()
            if not self.versions or self.versions[-1] != runtime.version:
                self.versions.append(runtime.version)
