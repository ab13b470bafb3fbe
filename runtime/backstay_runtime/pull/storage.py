"""A model's objects in S3: their facts, and their bytes by range. Every failure comes out told apart."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from backstay_contract.names import Key
from backstay_contract.termination import GaveUp
from minio import Minio
from minio.credentials.credentials import Credentials
from minio.credentials.providers import Provider
from minio.error import InvalidResponseError, S3Error, ServerError
from urllib3.exceptions import HTTPError, SSLError
from urllib3.response import BaseHTTPResponse

from backstay_runtime.pull.errors import ObjectChangedError, PullError, TransientError
from backstay_runtime.pull.settings import Settings
from backstay_runtime.pull.transport import Transport

CHUNK = 256 * 1024
"""Bytes read at a time: small enough to stay in a core's cache until they are written."""

_TRANSIENT_CODES = frozenset(
    {"RequestTimeout", "SlowDown", "InternalError", "ServiceUnavailable", "XMinioServerNotInitialized"}
)
_SETTINGS_CODES = frozenset({"AuthorizationHeaderMalformed", "InvalidRegion", "InvalidBucketName", "KeyTooLongError"})


class Facts(NamedTuple):
    """What a HEAD says of an object."""

    size: int
    etag: str


class FolderCredentials(Provider):
    """The keys in a mounted Secret, read again for every request: a rotated Secret is used at once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def retrieve(self) -> Credentials:
        # The kubelet replaces a Secret's files together by moving one link; resolving it first keeps the two
        # keys of one generation together.
        folder = (self._folder / "..data").resolve() if (self._folder / "..data").exists() else self._folder
        return Credentials(self._read(folder / Key.ACCESS), self._read(folder / Key.SECRET))

    def _read(self, path: Path) -> str:
        try:
            value = path.read_text(encoding="utf-8").strip()
        except OSError as error:
            raise self._refused(path.name, error.strerror or "unreadable") from None
        if not value:
            raise self._refused(path.name, "empty")
        return value

    def _refused(self, key: str, what: str) -> PullError:
        return PullError(
            GaveUp.CREDENTIALS_REJECTED,
            f"storage.secretRef: key {key} of the Secret is missing or unusable ({what}); "
            f"it needs the keys {Key.ACCESS} and {Key.SECRET}",
        )


class Storage:
    """The objects below one uri."""

    def __init__(self, settings: Settings, transport: Transport) -> None:
        self._settings = settings
        self._client = Minio(
            settings.endpoint.authority,
            secure=settings.endpoint.secure,
            region=settings.region,
            credentials=FolderCredentials(settings.credentials) if settings.credentials else None,
            http_client=transport,
        )

    def facts(self, path: str) -> Facts:
        """Size in bytes and ETag of a file's object.

        Raises PullError, or TransientError where another try may help; so do the other methods.
        """
        with self._told_apart(path):
            found = self._client.stat_object(self._settings.location.bucket, self._key(path))
            return Facts(size=found.size or 0, etag=found.etag or "")

    def small(self, path: str, most: int) -> bytes:
        """A whole small object; at most `most` + 1 bytes are read, so that a longer one is seen as such."""
        with self._told_apart(path):
            response = self._client.get_object(self._settings.location.bucket, self._key(path))
            try:
                return response.read(most + 1, decode_content=False)
            finally:
                # Closed, not released: what is left unread must not be taken for the next answer.
                response.close()

    @contextmanager
    def reading(self, path: str, start: int, end: int, etag: str) -> Iterator[Iterator[bytes]]:
        """The bytes [start, end) of the object that has this ETag, in chunks as they arrive.

        Raises ObjectChangedError when the object has another ETag by now. Bytes come as they are stored: a
        Content-Encoding is not undone, since the digest is of the stored bytes.
        """
        with self._told_apart(path):
            response = self._client.get_object(
                self._settings.location.bucket,
                self._key(path),
                offset=start,
                length=end - start,
                request_headers={"If-Match": f'"{etag}"'} if etag else {},
            )
            whole = False
            try:
                self._check_range(response, path, start, end)
                yield _chunks(response, end - start)
                whole = True
            finally:
                if whole:
                    response.release_conn()
                else:
                    response.close()

    def _key(self, path: str) -> str:
        return self._settings.location.key(path)

    def _check_range(self, response: BaseHTTPResponse, path: str, start: int, end: int) -> None:
        """A server that ignores Range would hand out the wrong bytes."""
        length = response.headers.get("content-length")
        if (response.status == 206 or start == 0) and length == str(end - start):
            return
        raise PullError(
            GaveUp.STORAGE_UNREACHABLE,
            f"{path}: the storage answered {response.status} with {length} bytes to a request for the bytes "
            f"{start} to {end}; it must honour Range",
            path=path,
        )

    @contextmanager
    def _told_apart(self, path: str) -> Iterator[None]:
        where = f"s3://{self._settings.location.bucket}/{self._key(path)}"
        try:
            yield
        except S3Error as error:
            raise _from_s3(error.code or "", error.response.status, path, where) from None
        except ServerError as error:
            raise _from_status(error.status_code, path, where) from None
        except InvalidResponseError as error:
            # The library keeps the status of an answer that is no XML to itself.
            raise _from_status(error._code, path, where) from None
        except SSLError as error:
            raise PullError(
                GaveUp.STORAGE_UNREACHABLE,
                f"{self._settings.endpoint}: TLS failed ({_short(error)}); check the endpoint's certificate",
            ) from None
        except (HTTPError, OSError) as error:
            if isinstance(error, OSError) and not isinstance(error, ConnectionError | TimeoutError):
                raise
            raise TransientError(f"{self._settings.endpoint}: {_short(error)}") from None
        except ValueError as error:  # minio-py refuses names before it sends anything
            raise PullError(GaveUp.SETTINGS_INVALID, f"{where}: {error}", path=path) from None


def _chunks(response: BaseHTTPResponse, length: int) -> Iterator[bytes]:
    left = length
    while left > 0:
        data = response.read(min(CHUNK, left), decode_content=False)
        if not data:
            raise TransientError(f"the answer ended {left} bytes early")
        left -= len(data)
        yield data


def _short(error: Exception) -> str:
    """A library's error in one line, without the addresses of its objects."""
    text = str(error).splitlines()[0] if str(error) else type(error).__name__
    return text.partition(">: ")[2] or text


def _from_s3(code: str, status: int, path: str, where: str) -> Exception:
    if code == "PreconditionFailed":
        return ObjectChangedError(where)
    if code in _TRANSIENT_CODES:
        return TransientError(f"{where}: the storage answered {status} {code}")
    if code in _SETTINGS_CODES:
        return PullError(
            GaveUp.SETTINGS_INVALID, f"{where}: the storage answered {code}; check region and uri", path=path
        )
    return _from_status(status, path, where, code)


def _from_status(status: int, path: str, where: str, code: str = "") -> Exception:
    said = f"{status} {code}".strip()
    if status in (408, 429) or status >= 500:
        return TransientError(f"{where}: the storage answered {said}")
    if status == 412:
        return ObjectChangedError(where)
    if 300 <= status < 400:
        return PullError(
            GaveUp.ENDPOINT_REFUSED,
            f"{where}: the storage answered {said}, a redirect; redirects are not followed, "
            "name the bucket's own endpoint and region",
            path=path,
        )
    if status == 404:
        return PullError(
            GaveUp.MODEL_NOT_FOUND, f"{where} does not exist ({said}); push the model or correct the uri", path=path
        )
    if status in (401, 403):
        return PullError(
            GaveUp.CREDENTIALS_REJECTED,
            f"{where}: the storage refused the credentials ({said}); check the Secret and its right to read",
            path=path,
        )
    return PullError(GaveUp.STORAGE_UNREACHABLE, f"{where}: the storage answered {said}", path=path)
