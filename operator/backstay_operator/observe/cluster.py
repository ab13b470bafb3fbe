"""The cluster's nodes with what is taken of them: one read for all passes that want to know it about the same time.

It is read only while a candidate is wanted and nothing was made for it yet. Of each pod only its sum is kept. Many
resources that begin at the same moment would otherwise each read all pods, those of the others among them.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from decimal import Decimal

from backstay_contract.status import Colour

from backstay_operator import kinds
from backstay_operator.client import ApiError, Client
from backstay_operator.observe.nodes import add, node_of, owner_of, requests_of
from backstay_operator.queue import Key
from backstay_operator.rollout.capacity.nodes import Node, Nodes

ON_NODES = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
"""Field selector of the pods that hold something on a node."""
SECONDS = 20.0
"""For all pages together: a very large cluster must not hold up the pass."""
SHARE = 10.0
"""A read counts for so many times as long as it took: then at most a tenth of the time goes into reads."""
LEAST_SECONDS, MOST_SECONDS = 0.5, 10.0
"""For which a read counts at least and at most."""

Sums = dict[str, Decimal]


@dataclass
class _Read:
    """What one read found: the nodes, and the part of each that a resource's colours hold."""

    nodes: tuple[Node, ...] = ()
    problem: str = ""
    held: dict[Key, dict[str, dict[Colour, Sums]]] = field(default_factory=dict)
    began: float = float("-inf")
    until: float = float("-inf")

    def for_resource(self, key: Key) -> Nodes:
        held = self.held.get(key, {})
        nodes = (replace(node, held=held[node.name]) if node.name in held else node for node in self.nodes)
        return Nodes(tuple(nodes), self.problem)


class Cluster:
    """`clock` gives seconds that never go back."""

    def __init__(self, client: Client, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._last = _Read()
        self._reading = asyncio.Lock()

    async def nodes(self, key: Key, *, fresh: bool = False) -> Nodes:
        """The nodes, with what the resource's own colours hold there; or why they cannot be read: then only the
        scheduler says where there is room. `fresh`: by no read that began before."""
        asked = self._clock()
        async with self._reading:
            began = self._clock()
            if began >= self._last.until or (fresh and self._last.began < asked):
                self._last = await self._read()
                ended = self._clock()
                # One that failed is tried again soon: meanwhile nobody knows where there is room.
                counts = 0.0 if self._last.problem else min(MOST_SECONDS, SHARE * (ended - began))
                self._last.began, self._last.until = began, ended + max(LEAST_SECONDS, counts)
            return self._last.for_resource(key)

    async def _read(self) -> _Read:
        try:
            async with asyncio.timeout(SECONDS):
                return await self._all()
        except ApiError as error:
            return _Read(problem=str(error))
        except TimeoutError:
            return _Read(problem=f"nodes and pods could not be read within {SECONDS:g} s")

    async def _all(self) -> _Read:
        found = _Read()
        taken: dict[str, Sums] = {}
        async for page in self._client.pages(kinds.POD, ON_NODES):
            for pod in page:
                where, asked = str(pod["spec"].get("nodeName", "")), requests_of(pod)
                add(taken.setdefault(where, {}), asked)
                owner = owner_of(pod)
                if owner is not None:
                    key, colour = owner
                    add(found.held.setdefault(key, {}).setdefault(where, {}).setdefault(colour, {}), asked)
        found.nodes = tuple([node_of(node, taken) async for page in self._client.pages(kinds.NODE) for node in page])
        return found
