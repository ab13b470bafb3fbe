"""POST /alerts, for Alertmanager's webhook receiver."""

import asyncio
import hmac
import logging
from collections.abc import Callable
from pathlib import Path

from aiohttp import web

from backstay_operator.alerts import payload
from backstay_operator.alerts.board import Board
from backstay_operator.alerts.payload import PayloadError

log = logging.getLogger(__name__)

PASS_SECONDS = 20.0
"""An answer waits so long for the pass; Alertmanager itself waits as long as its group_interval."""
LEAST_TOKEN = 16

Counted = Callable[[str, int], None]
"""Told the outcome and how many alerts had it."""


class Webhook:
    """Answers while the operator stands by, too: then with 503, so that Alertmanager tries again elsewhere."""

    def __init__(self, token_file: Path, counted: Counted) -> None:
        self._token_file = token_file
        self._counted = counted
        self.board: Board | None = None
        """Set while the operator leads."""

    def routes(self) -> list[web.RouteDef]:
        return [web.post("/alerts", self._answer)]

    async def _answer(self, request: web.Request) -> web.Response:
        refused = self._refused(request.headers.get("Authorization", ""))
        if refused is not None:
            return refused
        if self.board is None:
            return _later("this operator stands by")
        try:
            alerts = payload.parse(await request.read())
        except PayloadError as error:
            self._counted("refused", 1)
            log.warning("alerts were refused: %s", error)
            return web.json_response({"error": str(error)}, status=400)
        try:
            async with asyncio.timeout(PASS_SECONDS):
                ignored = await self.board.report(alerts)
        except TimeoutError:
            return _later("the pass that has to see the alerts has not ended yet")
        self._counted("ignored", len(ignored))
        self._counted("accepted", len(alerts) - len(ignored))
        said = [{"fingerprint": one.fingerprint, "reason": one.reason} for one in ignored]
        return web.json_response({"accepted": len(alerts) - len(ignored), "ignored": said})

    def _refused(self, header: str) -> web.Response | None:
        """None where the token is right. It is read each time: a Secret that changes needs no restart."""
        try:
            token = self._token_file.read_bytes().strip()
        except OSError as error:
            log.error("the alerts' token cannot be read: %s", error.strerror)
            token = b""
        given = header.removeprefix("Bearer ").strip().encode()
        if len(token) >= LEAST_TOKEN and header.startswith("Bearer ") and hmac.compare_digest(given, token):
            return None
        self._counted("unauthorized", 1)
        return web.json_response(
            {"error": "a bearer token is needed: the one in the Secret that the chart's value `alerts` names"},
            status=401,
            headers={"WWW-Authenticate": 'Bearer realm="backstay"'},
        )


def _later(why: str) -> web.Response:
    """Alertmanager tries again. On another connection: that may lead to the operator that acts."""
    answer = web.json_response({"error": why}, status=503, headers={"Retry-After": "2"})
    answer.force_close()
    return answer
