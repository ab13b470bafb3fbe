"""Whether a component is ready, asked the way its users reach it."""

import http.client
import socket
import ssl
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from backstay_cluster import netns

_TIMEOUT_S = 3.0


@dataclass(frozen=True)
class Http:
    """Ready when the address answers 200. With `authority`, over TLS that this CA must vouch for."""

    url: str
    authority: Path | None = None


@dataclass(frozen=True)
class Socket:
    """Ready when something listens on the Unix socket."""

    path: Path


Probe = Http | Socket


def trouble(probe: Probe, namespace: Path) -> str | None:
    """None when ready; else what was found instead, in a few words."""
    try:
        if isinstance(probe, Socket):
            return _socket_trouble(probe.path)
        return netns.inside(namespace, lambda: _http_trouble(probe))
    except (OSError, http.client.HTTPException) as error:
        return f"{type(error).__name__}: {error}"


def _socket_trouble(path: Path) -> str | None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_TIMEOUT_S)
        connection.connect(str(path))
    return None


def _http_trouble(probe: Http) -> str | None:
    parts = urlsplit(probe.url)
    host, port = parts.hostname or "", parts.port or 0
    connection: http.client.HTTPConnection
    if probe.authority is None:
        connection = http.client.HTTPConnection(host, port, timeout=_TIMEOUT_S)
    else:
        context = ssl.create_default_context(cafile=str(probe.authority))
        connection = http.client.HTTPSConnection(host, port, timeout=_TIMEOUT_S, context=context)
    try:
        connection.request("GET", parts.path)
        answer = connection.getresponse()
        body = answer.read(2000).decode(errors="replace")
    finally:
        connection.close()
    if answer.status == http.client.OK:
        return None
    failing = [line for line in body.splitlines() if line.startswith("[-]")]
    return f"HTTP {answer.status} {'; '.join(failing)}".strip()
