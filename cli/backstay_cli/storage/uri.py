"""Where a model's objects are. Pure."""

import re
from typing import NamedTuple

from backstay_contract.names import object_key
from backstay_contract.resource import Model

from backstay_cli.errors import usage

# The resource's own rule: what is pushed here can be asked for there.
_PATTERN = re.compile(Model.model_json_schema()["properties"]["uri"]["pattern"])


class Location(NamedTuple):
    """A bucket and a prefix in it."""

    bucket: str
    prefix: str

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}"

    def key(self, path: str) -> str:
        """Key of a model's file."""
        return object_key(self.prefix, path)


def is_uri(text: str) -> bool:
    """Whether a text means objects and not a folder."""
    return text.startswith("s3://")


def parse(text: str) -> Location:
    """The location in `s3://BUCKET/PREFIX`. Raises CliError, naming the uri."""
    if not _PATTERN.fullmatch(text):
        raise usage(f"uri {text!r}: write s3://BUCKET/PREFIX; a prefix has letters, digits, spaces and . _ - + = @")
    bucket, _, prefix = text.removeprefix("s3://").removesuffix("/").partition("/")
    if any(part in (".", "..") for part in prefix.split("/")):
        raise usage(f"uri {text!r}: a prefix without '.' and '..' is needed")
    return Location(bucket, prefix)
