"""Digests: SHA-256 written as `sha256:` and 64 lower-case hex digits."""

import hashlib
import re
from typing import Annotated

from pydantic import AfterValidator, StringConstraints

PREFIX = "sha256:"
PATTERN = r"^(sha256:)?[0-9a-f]{64}$"


def normalise(text: str) -> str:
    """`sha256:<hex>` for a digest written with or without its prefix.

    Raises ValueError when it is neither.
    """
    if not re.fullmatch(PATTERN, text):
        raise ValueError(f"{text!r} is not a SHA-256 digest: write 64 lower-case hex digits, with or without 'sha256:'")
    return text if text.startswith(PREFIX) else PREFIX + text


def of_bytes(data: bytes) -> str:
    """The digest of some bytes."""
    return PREFIX + hashlib.sha256(data).hexdigest()


def hex_of(digest: str) -> str:
    """The 64 hex digits alone, as folder names use them."""
    return normalise(digest).removeprefix(PREFIX)


def short(digest: str) -> str:
    """The first 12 hex digits: for people to read, never to compare."""
    return hex_of(digest)[:12]


Digest = Annotated[str, StringConstraints(pattern=PATTERN), AfterValidator(normalise)]
"""A SHA-256 digest; held as `sha256:<hex>`, accepted without its prefix too."""
