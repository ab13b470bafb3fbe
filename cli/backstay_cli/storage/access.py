"""How the storage is reached: endpoint, region, keys. Keys come from files or the environment, never from arguments."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import certifi
import urllib3
from backstay_contract.names import Env
from minio import Minio

from backstay_cli.errors import usage

ACCESS_KEY = "BACKSTAY_ACCESS_KEY"
SECRET_KEY = "BACKSTAY_SECRET_KEY"
CONNECTIONS = 16


@dataclass(frozen=True)
class Access:
    """An endpoint and the keys for it; without keys objects are read anonymously."""

    endpoint: str
    region: str
    access_key: str | None = None
    secret_key: str | None = field(default=None, repr=False)

    def client(self) -> Minio:
        """A client that tries again after 5xx answers and lost connections, 5 times in about 6 seconds."""
        url = urlsplit(self.endpoint)
        return Minio(
            url.netloc,
            access_key=self.access_key,
            secret_key=self.secret_key,
            secure=url.scheme == "https",
            region=self.region,
            http_client=urllib3.PoolManager(
                maxsize=CONNECTIONS,
                timeout=urllib3.Timeout(connect=5, read=60),
                retries=urllib3.Retry(total=5, backoff_factor=0.2, status_forcelist=[500, 502, 503, 504], redirect=0),
                cert_reqs="CERT_REQUIRED",
                ca_certs=os.environ.get("SSL_CERT_FILE") or certifi.where(),
            ),
        )


def read_access(
    env: Mapping[str, str],
    *,
    endpoint: str | None,
    region: str | None,
    access_key_file: Path | None,
    secret_key_file: Path | None,
) -> Access:
    """Options first, then the environment. Raises CliError, naming what is missing."""
    url = endpoint or env.get(Env.STORAGE_ENDPOINT) or ""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path not in ("", "/") or parts.query:
        given = f"{url!r} is not one" if url else "none is given"
        raise usage(f"--endpoint (or {Env.STORAGE_ENDPOINT}): write http(s)://HOST[:PORT]; {given}")
    if parts.username or parts.password:
        raise usage(f"--endpoint: keys do not belong into it; set {ACCESS_KEY} and {SECRET_KEY}")
    access = _key(env, ACCESS_KEY, access_key_file)
    secret = _key(env, SECRET_KEY, secret_key_file)
    if (access is None) != (secret is None):
        raise usage(f"{ACCESS_KEY} and {SECRET_KEY}: one of them is missing; give both, or none to read anonymously")
    return Access(url.rstrip("/"), region or env.get(Env.STORAGE_REGION) or "us-east-1", access, secret)


def _key(env: Mapping[str, str], variable: str, file: Path | None) -> str | None:
    if file is None:
        return env.get(variable) or None
    try:
        return file.read_text(encoding="utf-8").strip() or None
    except OSError as error:
        raise usage(f"{file}: the key cannot be read: {error.strerror}") from None
