"""Runs manifests/argo-cd/health.lua as Argo CD does: Lua 5.1, the object as the global `obj`, no libraries."""

from pathlib import Path
from typing import Any, NamedTuple

from lupa import lua51

SCRIPT = Path(__file__).parents[2] / "manifests" / "argo-cd" / "health.lua"
CLOSED = ("os", "io", "package", "require", "debug", "dofile", "loadfile")
"""Argo CD opens the libraries base, table and string only."""


class Health(NamedTuple):
    """What Argo CD shows."""

    status: str
    message: str


def health(resource: dict[str, Any]) -> Health:
    """The health of an object as the API server gives it."""
    lua = lua51.LuaRuntime(unpack_returned_tuples=True)
    for name in CLOSED:
        lua.globals()[name] = None
    lua.globals()["obj"] = lua.table_from(resource, recursive=True)
    found = lua.execute(SCRIPT.read_text())
    return Health(str(found["status"]), str(found["message"]))
