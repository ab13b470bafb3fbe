"""HTTP to pods, to Prometheus and to those who are notified: short timeouts, bounded answers, no redirects."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import httpx2

TIMEOUT_SECONDS = 2.0
"""For one answer as a whole: a dead or dripping pod delays a pass by no more."""
MAX_BYTES = 16 * 1024 * 1024
"""An answer that is longer is not read to its end."""


class HttpError(Exception):
    """No usable answer; the message says why in a few words."""


class Answer(NamedTuple):
    """An answer that came in whole."""

    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes

    def json(self) -> Any:
        """The body's JSON; raises HttpError, also for NaN and Infinity, which JSON does not know."""
        try:
            return json.loads(self.body, parse_constant=_refuse)
        except ValueError as error:
            raise HttpError(f"the answer is not JSON: {error}") from error


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is not JSON")


class Http:
    """A pool of connections. `ask` never raises anything but HttpError (and cancellation)."""

    def __init__(self, timeout: float = TIMEOUT_SECONDS, *, outside: bool = False) -> None:
        """`outside`: the cluster's proxy and authorities count, as the environment names them."""
        self._timeout = timeout
        self._pool = httpx2.AsyncClient(
            timeout=timeout,
            follow_redirects=False,
            trust_env=outside,
            limits=httpx2.Limits(max_connections=256, max_keepalive_connections=32, keepalive_expiry=10),
        )

    async def close(self) -> None:
        await self._pool.aclose()

    async def ask(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: Any = None,
        form: Mapping[str, str] | None = None,
        within: float | None = None,
    ) -> Answer:
        """One request. `within` bounds the whole of it, in seconds."""
        seconds = self._timeout if within is None else within
        try:
            async with (
                asyncio.timeout(seconds),
                self._pool.stream(
                    method,
                    url,
                    headers=dict(headers or {}),
                    json=body,
                    data=dict(form) if form is not None else None,
                    timeout=httpx2.Timeout(seconds, connect=min(seconds, self._timeout)),
                ) as response,
            ):
                return Answer(response.status_code, dict(response.headers), await _read(response))
        except (TimeoutError, httpx2.TimeoutException) as error:
            raise HttpError(f"no answer within {seconds:g} s") from error
        except httpx2.HTTPError as error:
            raise HttpError(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__) from error


async def _read(response: httpx2.Response) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for part in response.aiter_bytes():
        size += len(part)
        if size > MAX_BYTES:
            raise HttpError(f"the answer is longer than {MAX_BYTES} bytes")
        parts.append(part)
    return b"".join(parts)


def host(ip: str) -> str:
    """An address as it stands in a URL."""
    return f"[{ip}]" if ":" in ip else ip
