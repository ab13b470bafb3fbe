"""How soon a request's turn comes. Pure."""

from enum import StrEnum


class Priority(StrEnum):
    """A request's class. It is a head start, not a right: see `lag`."""

    HIGH = "high"
    NORMAL = "normal"
    LOW = "low"

    @property
    def lag(self) -> float:
        """Seconds that a request of this class counts as having come later than it did.

        So a `low` request is overtaken by `normal` ones for at most 20 seconds, and never starves.
        """
        return {Priority.HIGH: 0.0, Priority.NORMAL: 10.0, Priority.LOW: 30.0}[self]
