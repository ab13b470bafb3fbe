"""What the cells have in common, and where they are kept."""

from collections.abc import Callable

from backstay_contract.termination import EXIT_CODES, GaveUp

from ..place import SLOW, Place
from ..processes import Pod, Pulled
from ..proxy import Action

Cell = Callable[[Place], str]
CELLS: dict[tuple[str, str], Cell] = {}
WAYS = ("push", "pull", "cache")


class NotHereError(Exception):
    """The machine cannot play this cell."""


def cell(fault: str, way: str) -> Callable[[Cell], Cell]:
    def keep(function: Cell) -> Cell:
        CELLS[fault, way] = function
        return function

    return keep


def slowly(method: str, path: str, headers: dict[str, str]) -> Action | None:
    return Action(bytes_per_second=SLOW) if method in ("GET", "PUT") else None


def refused(pulled: Pulled, reason: GaveUp) -> str:
    assert pulled.termination is not None, pulled.log
    assert (pulled.termination.reason, pulled.code) == (reason, EXIT_CODES[reason]), pulled.termination
    return f"{reason}, nothing visible"


def again(place: Place, pod: Pod, digest: str) -> None:
    """Without the fault the same pod's next try brings the model."""
    place.calm()
    assert pod.pull(digest).code == 0
    assert place.whole(pod, digest)
