"""Log lines: one JSON object each, or text for people who run the operator by hand."""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any, TextIO

FIELDS = ("resource", "attempt", "phase", "reason", "event")
"""Extra fields that a line may carry."""


class JsonFormatter(logging.Formatter):
    """One line of JSON: time, level, logger, message, and the extra fields that are given."""

    def format(self, record: logging.LogRecord) -> str:
        body: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        body |= {name: value for name in FIELDS if (value := getattr(record, name, None))}
        if record.exc_info:
            body["trace"] = self.formatException(record.exc_info)
        return json.dumps(body, ensure_ascii=False, default=str)


class TextFormatter(logging.Formatter):
    """The same for people."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(message)s", "%H:%M:%S")

    def format(self, record: logging.LogRecord) -> str:
        resource = getattr(record, "resource", "")
        line = super().format(record)
        return f"{line}  [{resource}]" if resource else line


def configure(form: str, stream: TextIO | None = None) -> None:
    """Sends all log lines to the stream, in the form `json` or `text`."""
    handler = logging.StreamHandler(stream or sys.stdout)
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    # Every single watch reconnect and request is no news.
    for name in ("kopf", "aiohttp", "asyncio"):
        logging.getLogger(name).setLevel(logging.WARNING)
    # It warns that it takes no signals outside of the main thread, which is why it is there.
    logging.getLogger("kopf._core.reactor.running").setLevel(logging.ERROR)
