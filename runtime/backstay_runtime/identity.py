"""Which model a process serves."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Identity:
    """`digest` is `sha256:…` of the manifest; `name` is what clients ask for."""

    name: str
    version: str
    digest: str
