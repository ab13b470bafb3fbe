"""HTTP to pods, to Prometheus and to those who are notified: short timeouts, bounded answers, no redirects."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import aiohttp

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
        """Made where an event loop runs. `outside`: the cluster's proxy counts, as the environment names it."""
        self._timeout = timeout
        self._pool = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=256, keepalive_timeout=10),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=outside,
        )

    async def close(self) -> None:
        await self._pool.close()

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
            async with self._pool.request(
                method,
                url,
                headers=headers,
                json=body,
                data=form,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=seconds, connect=min(seconds, self._timeout)),
            ) as response:
                named = {name.lower(): value for name, value in response.headers.items()}
                return Answer(response.status, named, await _read(response))
        except TimeoutError as error:
            raise HttpError(f"no answer within {seconds:g} s") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:  # ValueError: a name that is no host's
            raise HttpError(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__) from error


async def _read(response: aiohttp.ClientResponse) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for part in response.content.iter_any():
        size += len(part)
        if size > MAX_BYTES:
            raise HttpError(f"the answer is longer than {MAX_BYTES} bytes")
        parts.append(part)
    return b"".join(parts)


def host(ip: str) -> str:
    """An address as it stands in a URL."""
    return f"[{ip}]" if ":" in ip else ip
