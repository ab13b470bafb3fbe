"""Work that ends when its client goes away."""

import asyncio
import contextlib
from collections.abc import Awaitable, Coroutine
from typing import Any, TypeVar

from starlette.types import Receive

T = TypeVar("T")


class ClientGoneError(Exception):
    """The connection was closed before the answer was complete."""


async def unless_gone(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """The work's result. Cancels it and raises ClientGoneError when the client disconnects first.

    The request's body must have been read: what `receive` gives after it can only be the disconnect.
    """
    task = asyncio.ensure_future(work)
    watch = asyncio.ensure_future(_disconnect(receive))
    try:
        await asyncio.wait({task, watch}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise ClientGoneError
    finally:
        await _end(task)
        await _end(watch)


async def _disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _end(task: Awaitable[Any]) -> None:
    if isinstance(task, asyncio.Future) and not task.done():
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
