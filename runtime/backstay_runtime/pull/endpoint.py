"""Which storage endpoints may be spoken to. Pure: addresses are arguments, nothing is resolved here."""

import ipaddress
from typing import NamedTuple
from urllib.parse import urlsplit

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

METADATA = frozenset(
    ipaddress.ip_address(text)
    for text in (
        "169.254.169.254",  # most clouds
        "fd00:ec2::254",  # AWS over IPv6
        "fd20:ce::254",  # Google over IPv6
        "100.100.100.200",  # Alibaba
        "168.63.129.16",  # Azure's wire server
        "192.0.0.192",  # Oracle
    )
)
"""Where clouds answer with a node's own credentials."""

_NAT64 = ipaddress.ip_network("64:ff9b::/96")


class Endpoint(NamedTuple):
    """An S3 endpoint."""

    secure: bool
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.secure else 'http'}://{host}:{self.port}"

    @property
    def authority(self) -> str:
        """`host:port` as the S3 client wants it; a default port is left out, since it would be signed."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.secure else 80) else f"{host}:{self.port}"


def parse(text: str) -> Endpoint:
    """The endpoint in a URL such as `http://minio.minio.svc:9000`. Raises ValueError, saying what is wrong."""
    url = urlsplit(text)
    if url.scheme not in ("http", "https"):
        raise ValueError(f"{text!r} is refused: write http://HOST[:PORT] or https://HOST[:PORT]")
    if url.username is not None or url.password is not None:
        raise ValueError("a URL with a user name or password is refused; credentials come from the Secret")
    if not url.hostname or url.path not in ("", "/") or url.query or url.fragment:
        raise ValueError(f"{text!r} is refused: only http(s)://HOST[:PORT], without a path")
    return Endpoint(url.scheme == "https", url.hostname, _port(url.scheme, text))


def _port(scheme: str, text: str) -> int:
    try:
        port = urlsplit(text).port
    except ValueError:
        raise ValueError(f"{text!r} is refused: the port must be a number from 1 to 65535") from None
    if port == 0:
        raise ValueError(f"{text!r} is refused: the port must be a number from 1 to 65535")
    return port or (443 if scheme == "https" else 80)


def refusal(address: str, *, allow_loopback: bool = False) -> str | None:
    """Why a resolved address must not be connected to, or None if it may be."""
    found = _unwrapped(ipaddress.ip_address(address.partition("%")[0]))
    if found in METADATA:
        return f"{address} is a cloud's metadata address"
    if found.is_loopback:
        return None if allow_loopback else f"{address} is a loopback address"
    if found.is_link_local:
        return f"{address} is a link-local address"
    if found.is_unspecified or found.is_multicast or found.is_reserved:
        return f"{address} is not the address of a host"
    return None


def _unwrapped(address: Address) -> Address:
    """The IPv4 address inside an IPv6 one that stands for it."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address
