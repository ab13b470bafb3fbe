"""Objects of one kind as the API server has them now, kept by a watch: who looks often must not ask often."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import httpx2

Json = dict[str, Any]
Name = tuple[str, str]
"""Namespace and name."""
WATCH_SECONDS = 300


class Watched:
    """`changed` is called with each state of each object, in order; with None once it is gone."""

    def __init__(self, path: str, query: dict[str, str], changed: Callable[[Name, Json | None], None]) -> None:
        self._path = path
        self._query = query
        self._changed = changed
        self.objects: dict[Name, Json] = {}

    async def follow(self, api: httpx2.AsyncClient) -> None:
        """Runs until it is cancelled. Lists again whenever the watch ends, whatever ended it."""
        while True:
            try:
                await self._watch(api, await self._list(api))
            except (httpx2.HTTPError, json.JSONDecodeError, LookupError):
                await asyncio.sleep(0.2)

    async def _list(self, api: httpx2.AsyncClient) -> str:
        answer = await api.get(self._path, params=self._query)
        answer.raise_for_status()
        body: Json = answer.json()
        found = {_name(item): item for item in body["items"]}
        for name in self.objects.keys() - found.keys():
            self._take(name, None)
        for name, item in found.items():
            self._take(name, item)
        return str(body["metadata"]["resourceVersion"])

    async def _watch(self, api: httpx2.AsyncClient, version: str) -> None:
        query = {**self._query, "watch": "true", "resourceVersion": version, "timeoutSeconds": str(WATCH_SECONDS)}
        async with api.stream("GET", self._path, params=query, timeout=WATCH_SECONDS + 5) as answer:
            answer.raise_for_status()
            async for line in answer.aiter_lines():
                event: Json = json.loads(line)
                if event["type"] == "ERROR":
                    return
                self._take(_name(event["object"]), None if event["type"] == "DELETED" else event["object"])

    def _take(self, name: Name, item: Json | None) -> None:
        if item is None:
            self.objects.pop(name, None)
        else:
            self.objects[name] = item
        self._changed(name, item)


def _name(item: Json) -> Name:
    return item["metadata"]["namespace"], item["metadata"]["name"]
