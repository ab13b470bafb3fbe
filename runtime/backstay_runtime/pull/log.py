"""One JSON object a line on standard output. Nothing secret is ever given to it."""

import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime

Log = Callable[..., None]
"""log("message", level="info", **fields)"""


def line(message: str, at: datetime, level: str = "info", **fields: object) -> str:
    """A log line: time, level, message, then the fields that are not None."""
    said = {name: value for name, value in fields.items() if value is not None}
    return json.dumps({"at": at.isoformat(timespec="milliseconds"), "level": level, "message": message} | said)


def to_stdout(message: str, level: str = "info", **fields: object) -> None:
    """Writes a log line to standard output at once."""
    sys.stdout.write(line(message, datetime.now(UTC), level, component="pull", **fields) + "\n")
    sys.stdout.flush()
