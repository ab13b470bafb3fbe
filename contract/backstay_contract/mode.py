"""How a serving pod is asked to behave, over its control port."""

from enum import StrEnum


class Mode(StrEnum):
    """A serving pod's mode."""

    NORMAL = "normal"
    DEGRADED = "degraded"
    """Answers are cut at a fixed number of tokens."""
    STANDBY = "standby"
    """Ready and answering as ever, but each answer closes its connection: clients that keep one alive reach the colour
    that the Service selects with their next request. The losing colour of a flip stands by, ready for a way back."""
    DRAINING = "draining"
    """Not ready; what still comes is answered, and told to connect elsewhere next time."""
