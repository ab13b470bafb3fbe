"""Where a model's objects are: `s3://BUCKET/PREFIX`, and the key of each file below it.

A uri is taken literally: nothing in it is percent-decoded, and a key is the prefix, a slash and the file's path.
"""

import re
from typing import Final, NamedTuple

SCHEME: Final = "s3://"
PATTERN: Final = r"^s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[A-Za-z0-9._+=@ -]+)+/?$"
"""The form of a uri, also as the resource's schema checks it; that a part is no `.` or `..` is checked beside it."""
MAX_LENGTH: Final = 1024


class Location(NamedTuple):
    """A bucket and a prefix in it."""

    bucket: str
    prefix: str

    def __str__(self) -> str:
        return f"{SCHEME}{self.bucket}/{self.prefix}"

    def key(self, path: str) -> str:
        """Key of a model's file."""
        return f"{self.prefix}/{path}"


def is_uri(text: str) -> bool:
    """Whether a text means objects and not a folder."""
    return text.startswith(SCHEME)


def parse(text: str) -> Location:
    """The location that a uri names; a slash at its end is nothing. Raises ValueError, naming the uri."""
    if len(text) > MAX_LENGTH or not re.fullmatch(PATTERN, text):
        raise ValueError(
            f"{text[:200]!r}: write s3://BUCKET/PREFIX; a prefix has letters, digits, spaces and . _ - + = @"
        )
    bucket, _, prefix = text.removeprefix(SCHEME).removesuffix("/").partition("/")
    if any(part in (".", "..") for part in prefix.split("/")):
        raise ValueError(f"{text!r}: a prefix without '.' and '..' is needed")
    return Location(bucket, prefix)
