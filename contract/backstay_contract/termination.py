"""What a container says when it gives up: one JSON object in its termination message, and an exit code."""

import json
from enum import StrEnum
from typing import Any

from pydantic import ValidationError

from backstay_contract.base import Document

MAX_BYTES = 4096
"""The kubelet keeps this much of a termination message."""


class GaveUp(StrEnum):
    """Why a container gave up. Each has its own exit code (`EXIT_CODES`)."""

    DIGEST_MISMATCH = "DigestMismatch"
    MODEL_NOT_FOUND = "ModelNotFound"
    CREDENTIALS_REJECTED = "CredentialsRejected"
    STORAGE_UNREACHABLE = "StorageUnreachable"
    ENDPOINT_REFUSED = "EndpointRefused"
    INSUFFICIENT_STORAGE = "InsufficientStorage"
    MANIFEST_INVALID = "ManifestInvalid"
    HARDWARE_MISMATCH = "HardwareMismatch"
    MODEL_INVALID = "ModelInvalid"
    OUT_OF_MEMORY = "OutOfMemory"
    SETTINGS_INVALID = "SettingsInvalid"
    INTERNAL = "InternalError"


EXIT_CODES: dict[GaveUp, int] = {
    GaveUp.INTERNAL: 1,
    GaveUp.SETTINGS_INVALID: 2,
    GaveUp.DIGEST_MISMATCH: 10,
    GaveUp.MODEL_NOT_FOUND: 11,
    GaveUp.CREDENTIALS_REJECTED: 12,
    GaveUp.STORAGE_UNREACHABLE: 13,
    GaveUp.ENDPOINT_REFUSED: 14,
    GaveUp.INSUFFICIENT_STORAGE: 15,
    GaveUp.MANIFEST_INVALID: 16,
    GaveUp.HARDWARE_MISMATCH: 17,
    GaveUp.MODEL_INVALID: 18,
    GaveUp.OUT_OF_MEMORY: 19,
}

TERMINAL = frozenset(
    {
        GaveUp.DIGEST_MISMATCH,
        GaveUp.MANIFEST_INVALID,
        GaveUp.HARDWARE_MISMATCH,
        GaveUp.MODEL_INVALID,
        GaveUp.SETTINGS_INVALID,
        GaveUp.ENDPOINT_REFUSED,
    }
)
"""Reasons that another try with the same revision cannot cure: the candidate is rejected at once."""


class Termination(Document):
    """The termination message."""

    reason: GaveUp
    message: str
    """One sentence for people: the field or file, what was expected, what was found, the remedy."""
    path: str | None = None
    expected: str | None = None
    actual: str | None = None


def write(termination: Termination) -> str:
    """The message's text, at most MAX_BYTES bytes of UTF-8: long values are cut, the JSON stays whole.

    The sentence is cut before the values that it is about.
    """
    body = termination.to_json()
    for field in ("message", "actual", "expected", "path"):
        excess = _bytes(body) - MAX_BYTES
        while excess > 0 and body.get(field):
            # One character has at most 6 bytes in JSON (an escape), so this never cuts more than is needed.
            body[field] = body[field][: -max(1, excess // 6)]
            excess = _bytes(body) - MAX_BYTES
    return _dump(body)


def _dump(body: dict[str, Any]) -> str:
    return json.dumps(body, ensure_ascii=False)


def _bytes(body: dict[str, Any]) -> int:
    return len(_dump(body).encode())


def read(text: str) -> Termination | None:
    """The message in a container's termination text, or None where it is not one of ours."""
    try:
        value: Any = json.loads(text)
        return Termination.model_validate(value)
    except (ValueError, ValidationError):
        return None
