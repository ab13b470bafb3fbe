"""Which blocks hold which tokens: a chain of SHA-256 over model, salt and all tokens up to a block's end. Pure.

A hash finds a block; the tokens, compared one by one along the chain, decide. So equal hashes of different texts, were
there any, would cost a hit and never change an answer.
"""

import hashlib
import struct
from array import array
from collections.abc import Sequence as Many
from dataclasses import dataclass, field

NO_SHARING = b""
"""Root of a sequence that neither finds blocks nor leaves any."""


def root(model: str, salt: str = "") -> bytes:
    """Where the chains of a model and a salt begin: requests with different salts never share a block."""
    named = model.encode()
    return hashlib.sha256(struct.pack("<Q", len(named)) + named + salt.encode()).digest()


def link(parent: bytes, tokens: Many[int]) -> bytes:
    """The key of a block: of everything before it, and of its own tokens."""
    return hashlib.sha256(parent + array("q", tokens).tobytes()).digest()


def extend(keys: list[bytes], start: bytes, tokens: Many[int], block_size: int) -> None:
    """Adds to `keys` those of the blocks that `tokens` fill by now."""
    for block in range(len(keys), len(tokens) // block_size):
        parent = keys[-1] if keys else start
        keys.append(link(parent, tokens[block * block_size : (block + 1) * block_size]))


@dataclass(slots=True)
class _Entry:
    key: bytes
    parent: int | None
    """The block before it; None for the first of a text."""
    tokens: tuple[int, ...]
    children: set[int] = field(default_factory=set)


class PrefixIndex:
    """Blocks that can be found by their text.

    Invariant: the parent of a block that is found is found too, under the same number.
    """

    def __init__(self) -> None:
        self._block_of: dict[bytes, int] = {}
        self._entries: dict[int, _Entry] = {}

    def __contains__(self, block: int) -> bool:
        return block in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, keys: Many[bytes], tokens: Many[int], block_size: int) -> list[int]:
        """The blocks of the longest prefix that is here."""
        found: list[int] = []
        for place, key in enumerate(keys):
            block = self._block_of.get(key)
            text = tuple(tokens[place * block_size : (place + 1) * block_size])
            if block is None or not self._is(block, found[-1] if found else None, text):
                break
            found.append(block)
        return found

    def add(self, keys: Many[bytes], tokens: Many[int], blocks: Many[int], block_size: int) -> None:
        """Makes full blocks findable, one for each key; a text that is here already keeps its block."""
        parent: int | None = None
        for place, (key, block) in enumerate(zip(keys, blocks, strict=True)):
            text = tuple(tokens[place * block_size : (place + 1) * block_size])
            known = self._block_of.get(key)
            if known is None and block not in self._entries:
                self._block_of[key] = known = block
                self._entries[block] = _Entry(key, parent, text)
                if parent is not None:
                    self._entries[parent].children.add(block)
            elif known is None or not self._is(known, parent, text):
                return  # another text has the same key: this one is not shared
            parent = known

    def forget(self, block: int) -> list[int]:
        """Takes a block out, and those that follow it: without their parent they could not be told apart.

        Returns all that were taken out, `block` first.
        """
        gone: list[int] = []
        waiting = [block]
        while waiting:
            entry = self._entries.pop(waiting[-1])
            gone.append(waiting.pop())
            del self._block_of[entry.key]
            if entry.parent is not None and entry.parent in self._entries:
                self._entries[entry.parent].children.discard(gone[-1])
            waiting += entry.children
        return gone

    def _is(self, block: int, parent: int | None, text: tuple[int, ...]) -> bool:
        entry = self._entries[block]
        return entry.parent == parent and entry.tokens == text
