"""The operator's own HTTP: probes, and what other systems tell it. Answered by those that stand by, too."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from aiohttp import web

MAX_BODY_BYTES = 1024 * 1024
"""A longer request is refused with 413."""


async def _alive(_: web.Request) -> web.Response:
    """The event loop turns: that is all a probe has to know."""
    return web.Response(text="ok\n")


def application(routes: Iterable[web.RouteDef] = ()) -> web.Application:
    """The probes, and more routes."""
    app = web.Application(client_max_size=MAX_BODY_BYTES)
    app.add_routes([web.get("/healthz", _alive), *routes])
    return app


@asynccontextmanager
async def serving(app: web.Application, port: int) -> AsyncIterator[None]:
    """Serves as long as the block lasts."""
    runner = web.AppRunner(app, access_log=None, handle_signals=False)
    await runner.setup()
    try:
        await web.TCPSite(runner, None, port).start()
        yield
    finally:
        await runner.cleanup()
