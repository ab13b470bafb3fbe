"""Who is notified, as the installation says."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

from backstay_contract.base import Document
from backstay_contract.reasons import Reason
from pydantic import Field, StringConstraints, TypeAdapter, ValidationError, model_validator

from backstay_operator.notify.formats import Format

MAX_SINKS = 10
SCHEMES = ("http://", "https://")


class Sink(Document):
    """One receiver."""

    name: Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9]{0,28}[a-z0-9])?$")]
    """As metrics, logs and the events' annotations call it."""
    format: Format
    url_file: Path
    """File that holds the URL, which is a secret: who knows it can post."""
    reasons: tuple[Reason, ...] = ()
    """Only notices with one of these reasons; empty: with any."""
    warnings_only: bool = False

    def wants(self, data: dict[str, Any]) -> bool:
        """Whether the notice is for it."""
        if self.warnings_only and not data.get("warning"):
            return False
        return not self.reasons or data.get("reason") in self.reasons

    def url(self) -> str:
        """The URL as it is now: a Secret that changes needs no restart. Raises SinkError, which never shows it."""
        try:
            text = self.url_file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise SinkError(f"the file with its URL cannot be read ({type(error).__name__})") from error
        if not text.startswith(SCHEMES) or len(text.split()) != 1:
            raise SinkError("its Secret holds no http or https URL")
        return text


class SinkError(Exception):
    """A sink cannot be told; the message holds nothing secret."""


class _Sinks(Document):
    sinks: Annotated[tuple[Sink, ...], Field(max_length=MAX_SINKS)] = ()

    @model_validator(mode="after")
    def _names_differ(self) -> "_Sinks":
        doubled = _first_doubled(sink.name for sink in self.sinks)
        if doubled is not None:
            raise ValueError(f"two sinks are called {doubled!r}; give each a name of its own")
        return self


def _first_doubled(given: Iterable[str]) -> str | None:
    seen: set[str] = set()
    for name in given:
        if name in seen:
            return name
        seen.add(name)
    return None


def parse(text: str) -> tuple[Sink, ...]:
    """The sinks in the configuration's JSON. Raises ValueError that names the field."""
    try:
        return TypeAdapter(_Sinks).validate_json(text).sinks
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(str(part) for part in first["loc"]) or "the text"
        raise ValueError(f"{field}: {first['msg']}") from error
