"""HTTP connections to the storage that go only where they may, and follow nobody elsewhere."""

import socket
from collections.abc import Callable
from typing import Any

import certifi
import urllib3
from backstay_contract.termination import GaveUp
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import ConnectTimeoutError, NameResolutionError, NewConnectionError
from urllib3.response import BaseHTTPResponse

from backstay_runtime.pull import endpoint
from backstay_runtime.pull.errors import PullError

CONNECT_SECONDS = 5.0
SILENCE_SECONDS = 30.0
"""Without a single byte for so long a request counts as failed."""


def addresses(host: str, port: int, *, allow_loopback: bool) -> list[str]:
    """The host's addresses, every one of which may be connected to.

    Raises PullError (EndpointRefused) if any may not: a name that also resolves to a refused address is an
    attempt to get there by chance. Raises OSError when the name does not resolve.
    """
    found = [str(info[4][0]) for info in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    for address in found:
        why = endpoint.refusal(address, allow_loopback=allow_loopback)
        if why is not None:
            raise PullError(
                GaveUp.ENDPOINT_REFUSED,
                f"storage.endpoint: {host} is refused: {why}; name the storage's Service or public host",
            )
    return list(dict.fromkeys(found))


def _connect(connection: HTTPConnection, plain: Callable[[], socket.socket], allow_loopback: bool) -> socket.socket:
    """A socket to an address that was checked in the same breath.

    The check and the connect use one resolution, so a name cannot point elsewhere in between. TLS still checks
    the certificate against the name.
    """
    name = connection.host
    try:
        checked = addresses(name, connection.port, allow_loopback=allow_loopback)
    except socket.gaierror as error:
        raise NameResolutionError(name, connection, error) from error
    failure: Exception = NewConnectionError(connection, f"{name} has no address")
    try:
        for address in checked:
            connection.host = address
            try:
                return plain()
            except (NewConnectionError, ConnectTimeoutError) as error:
                failure = error
    finally:
        connection.host = name
    raise failure


def _pools(allow_loopback: bool) -> dict[str, Any]:
    class CheckedHTTP(HTTPConnection):
        def _new_conn(self) -> socket.socket:
            return _connect(self, super()._new_conn, allow_loopback)

    class CheckedHTTPS(HTTPSConnection):
        def _new_conn(self) -> socket.socket:
            return _connect(self, super()._new_conn, allow_loopback)

    class HTTPPool(urllib3.HTTPConnectionPool):
        ConnectionCls = CheckedHTTP

    class HTTPSPool(urllib3.HTTPSConnectionPool):
        ConnectionCls = CheckedHTTPS

    return {"http": HTTPPool, "https": HTTPSPool}


class Transport(urllib3.PoolManager):
    """A connection pool without retries and redirects: the first are ours to count, the second are refused."""

    def __init__(
        self,
        *,
        connections: int,
        allow_loopback: bool = False,
        ca_file: str | None = None,
        silence_seconds: float = SILENCE_SECONDS,
    ) -> None:
        super().__init__(
            maxsize=connections,
            timeout=urllib3.Timeout(connect=CONNECT_SECONDS, read=silence_seconds),
            retries=False,
            cert_reqs="CERT_REQUIRED",
            ca_certs=ca_file or certifi.where(),
        )
        self.pool_classes_by_scheme = _pools(allow_loopback)

    def urlopen(self, method: str, url: str, redirect: bool = True, **kw: Any) -> BaseHTTPResponse:  # type: ignore[override]  # noqa: ARG002
        return super().urlopen(method, url, redirect=False, **kw)
