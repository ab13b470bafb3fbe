"""Fitting a prompt that is too long, with a mark where something was left out. Pure."""

from collections.abc import Sequence
from enum import StrEnum

MARK = "\n[…]\n"
"""Stands where tokens were left out, so that the model can know."""


class Truncate(StrEnum):
    """What is kept of a prompt that is too long."""

    KEEP_HEAD = "keep_head"
    KEEP_TAIL = "keep_tail"
    KEEP_ENDS = "keep_ends"
    """Half of the room for its beginning, half for its end."""


def fitted(tokens: Sequence[int], most: int, mark: Sequence[int], how: Truncate) -> list[int]:
    """At most `most` tokens: all of them, or what is kept and the mark. Where the mark does not fit it is left out."""
    if len(tokens) <= most:
        return list(tokens)
    if len(mark) >= most:
        mark = ()
    room = most - len(mark)
    if how is Truncate.KEEP_HEAD:
        return [*tokens[:room], *mark]
    if how is Truncate.KEEP_TAIL:
        return [*mark, *tokens[len(tokens) - room :]]
    head = (room + 1) // 2
    return [*tokens[:head], *mark, *tokens[len(tokens) - (room - head) :]]
