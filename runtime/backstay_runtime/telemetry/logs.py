"""Logs as one JSON object a line."""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any

_FIELDS = "fields"


class JsonFormatter(logging.Formatter):
    """time, level, logger, message, and whatever was passed with `with_fields`."""

    def format(self, record: logging.LogRecord) -> str:
        """One line of JSON."""
        entry: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        entry |= getattr(record, _FIELDS, {})
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=True, default=str)


def with_fields(**fields: Any) -> dict[str, dict[str, Any]]:
    """For a logging call's `extra`: the fields that are not None stand in the line."""
    return {_FIELDS: {name: value for name, value in fields.items() if value is not None}}


def configure(level: int = logging.INFO) -> None:
    """Sends every log to standard output as JSON."""
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for noisy in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logger = logging.getLogger(noisy)
        logger.handlers.clear()
        logger.propagate = True
        logger.setLevel(logging.WARNING)
