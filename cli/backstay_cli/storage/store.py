"""A model's objects: looked up, read and written, with failures told apart."""

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import NamedTuple

from backstay_contract.location import Location
from minio import Minio
from minio.error import InvalidResponseError, S3Error, ServerError
from urllib3.exceptions import HTTPError

from backstay_cli.errors import CliError, Exit

SHA256_HEADER = "x-amz-meta-backstay-sha256"
"""Written with the object by `push`, in the same request. It says what was sent; it does not prove what is there."""
CHECKSUM_HEADER = "x-amz-checksum-sha256"
"""The storage's own: it compared the bytes when it took them, for objects that were sent in one request."""
ASK_CHECKSUM: dict[str, str | list[str] | tuple[str]] = {"x-amz-checksum-mode": "ENABLED"}
CHUNK = 1024 * 1024
_CONFLICTS = frozenset(
    {"PreconditionFailed", "InvalidPart", "NoSuchUpload", "ConditionalRequestConflict", "OperationAborted"}
)


class ConflictError(CliError):
    """Somebody else writes to the same place."""


class Stored(NamedTuple):
    """What is known of an object without reading it."""

    size: int
    sha256: str | None
    """Hex digits that its writer recorded, or None."""
    etag: str
    checked: str | None = None
    """Hex digits that the storage itself compared with the bytes that it keeps, or None."""


class Listed(NamedTuple):
    """An object in a listing."""

    key: str
    size: int
    changed_at: datetime


class Store:
    """The objects below one uri."""

    def __init__(self, client: Minio, location: Location, endpoint: str) -> None:
        self.client, self.location, self.endpoint = client, location, endpoint

    def stat(self, path: str) -> Stored | None:
        """What is known of a file's object, or None where there is none."""
        key = self.location.key(path)
        try:
            with self.told_apart(key):
                found = self.client.stat_object(self.location.bucket, key, extra_headers=ASK_CHECKSUM)
        except CliError as error:
            if error.code is Exit.NOT_FOUND:
                return None
            raise
        headers = {name.lower(): value for name, value in (found.metadata or {}).items()}
        checked = _hex(headers.get(CHECKSUM_HEADER))
        return Stored(found.size or 0, headers.get(SHA256_HEADER), found.etag or "", checked)

    def read(self, path: str, most: int) -> bytes | None:
        """A small object, at most `most` + 1 bytes of it, or None where there is none."""
        key = self.location.key(path)
        try:
            with self.told_apart(key):
                response = self.client.get_object(self.location.bucket, key)
                try:
                    return response.read(most + 1, decode_content=False)
                finally:
                    response.close()
        except CliError as error:
            if error.code is Exit.NOT_FOUND:
                return None
            raise

    def at(self, prefix: str) -> "Store":
        """The objects below another prefix of the bucket."""
        return Store(self.client, Location(self.location.bucket, prefix), self.endpoint)

    def listed(self) -> list[Listed]:
        """All objects below the uri, or in the whole bucket where its prefix is empty, by key."""
        below = f"{self.location.prefix}/" if self.location.prefix else ""
        with self.told_apart(below):
            found = list(self.client.list_objects(self.location.bucket, prefix=below, recursive=True))
        never = datetime.fromtimestamp(0, UTC)
        return [Listed(str(one.object_name), one.size or 0, one.last_modified or never) for one in found]

    def remove(self, key: str) -> None:
        """Removes an object; one that is gone already is no error."""
        with self.told_apart(key):
            self.client.remove_object(self.location.bucket, key)

    def abandoned(self, before: datetime) -> list[tuple[str, str]]:
        """Key and id of each unfinished upload below the uri that was begun before a time."""
        with self.told_apart(self.location.prefix):
            found = self.client._list_multipart_uploads(self.location.bucket, prefix=self.location.prefix).uploads
        return [
            (str(one.object_name), str(one.upload_id))
            for one in found
            if one.initiated_time is not None and one.initiated_time < before
        ]

    def abandon(self, key: str, upload_id: str) -> None:
        """Gives up an unfinished upload: its parts take no room any more."""
        with self.told_apart(key):
            self.client._abort_multipart_upload(self.location.bucket, key, upload_id)

    def chunks(self, path: str) -> Iterator[bytes]:
        """All bytes of a file's object, as they are stored."""
        key = self.location.key(path)
        with self.told_apart(key):
            response = self.client.get_object(self.location.bucket, key)
            try:
                while data := response.read(CHUNK, decode_content=False):
                    yield data
            finally:
                response.close()
                response.release_conn()

    def put_new(self, path: str, data: bytes) -> bool:
        """Writes a small object unless there is one already: False then, and nothing was changed."""
        key = self.location.key(path)
        headers: dict[str, str | list[str] | tuple[str]] = {"Content-Type": "application/json", "If-None-Match": "*"}
        with self.told_apart(key):
            try:
                # put_object cannot send a condition; check and write must be one step.
                self.client._put_object(self.location.bucket, key, data, headers)
            except S3Error as error:
                if error.code == "PreconditionFailed":
                    return False
                raise
        return True

    def make_bucket(self) -> None:
        """Makes the bucket unless it is there."""
        with self.told_apart(""):
            if not self.client.bucket_exists(self.location.bucket):
                self.client.make_bucket(self.location.bucket)

    @contextmanager
    def told_apart(self, key: str) -> Iterator[None]:
        """Turns the client's errors into CliError."""
        where = f"s3://{self.location.bucket}/{key}"
        try:
            yield
        except S3Error as error:
            raise failure(error.response.status, error.code or "", where) from None
        except ServerError as error:
            raise failure(error.status_code, "", where) from None
        except InvalidResponseError as error:
            raise failure(error._code, "", where) from None
        except HTTPError as error:
            reason = getattr(error, "reason", None) or error
            text = str(reason).partition(">: ")[2] or str(reason)
            raise CliError(
                f"{self.endpoint} cannot be reached ({text}); check --endpoint and that the storage runs",
                Exit.UNREACHABLE,
            ) from None


def _hex(checksum: str | None) -> str | None:
    """A whole object's checksum as hex digits; that of an object in parts is one of checksums, and says nothing."""
    try:
        return base64.b64decode(checksum or "", validate=True).hex() or None
    except ValueError:
        return None


def failure(status: int, code: str, where: str) -> CliError:
    """The error for an answer of the storage. Pure."""
    said = f"{status} {code}".strip()
    if code in _CONFLICTS:
        return ConflictError(
            f"{where}: another push writes to the same place; push again when it is over", Exit.REFUSED
        )
    if status == 404:
        return CliError(f"{where} does not exist ({said})", Exit.NOT_FOUND)
    if status in (401, 403):
        return CliError(f"{where}: the storage refused the credentials ({said}); check the keys", Exit.FORBIDDEN)
    if 300 <= status < 400:
        return CliError(
            f"{where}: the storage redirects ({said}); give the bucket's own endpoint and region", Exit.UNREACHABLE
        )
    return CliError(f"{where}: the storage answered {said}", Exit.UNREACHABLE)
