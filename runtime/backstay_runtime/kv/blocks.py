"""Which sequences hold which block of the key/value cache. Pure."""

from collections import Counter
from collections.abc import KeysView
from collections.abc import Sequence as Many

from backstay_runtime.kv.prefix import PrefixIndex

PADDING_BLOCK = 0
"""Never written and never owned: block tables of unequal length are filled up with it."""

PROBE_BLOCK = 1
"""Set aside for the readiness probe, so that a full cache does not make the server look dead."""

RESERVED_BLOCKS = 2


class BlockPool:
    """Hands out blocks of `block_size` tokens, and remembers what full ones hold.

    Invariant: every block of [RESERVED_BLOCKS, total) is empty, or kept (nobody holds it, but its text can be found),
    or held by one owner or by several who share it. Kept blocks are given away, the longest unused first, when there
    is no empty one.
    """

    def __init__(self, total: int, block_size: int) -> None:
        """`total` counts the reserved blocks too."""
        if total <= RESERVED_BLOCKS:
            raise ValueError(f"{total} blocks leave none for requests: {RESERVED_BLOCKS} are reserved")
        self.block_size = block_size
        self.capacity = total - RESERVED_BLOCKS
        # Taken from the end, so the lowest numbers go first and the cache's memory fills from its start.
        self._empty = list(range(total - 1, RESERVED_BLOCKS - 1, -1))
        self._kept: dict[int, None] = {}
        """In the order in which they were last given back."""
        self._holders: Counter[int] = Counter()
        self._index = PrefixIndex()

    @property
    def free(self) -> int:
        """Blocks that nobody holds."""
        return len(self._empty) + len(self._kept)

    @property
    def used(self) -> int:
        """Blocks that sequences hold."""
        return len(self._holders)

    @property
    def held(self) -> KeysView[int]:
        """Those blocks."""
        return self._holders.keys()

    @property
    def kept(self) -> int:
        """Free blocks whose text can still be found."""
        return len(self._kept)

    def needed(self, tokens: int) -> int:
        """Blocks that hold this many tokens."""
        return -(-tokens // self.block_size)

    def find(self, keys: Many[bytes], tokens: Many[int]) -> list[int]:
        """The blocks that hold the longest known prefix of the tokens; they are not held by this."""
        return self._index.find(keys, tokens, self.block_size)

    def fresh(self, blocks: Many[int]) -> int:
        """How many of the blocks nobody holds at present."""
        return sum(block in self._kept for block in blocks)

    def share(self, blocks: Many[int]) -> None:
        """Holds blocks that `find` gave."""
        for block in blocks:
            self._kept.pop(block, None)
            self._holders[block] += 1

    def publish(self, keys: Many[bytes], tokens: Many[int], blocks: Many[int]) -> None:
        """Makes full blocks findable: `blocks[i]` holds the tokens that `keys[i]` stands for, and is held."""
        self._index.add(keys, tokens, blocks, self.block_size)

    def take(self, count: int) -> list[int] | None:
        """`count` blocks with nothing in them, or None (and nothing taken) when fewer are free."""
        if count > self.free:
            return None
        while len(self._empty) < count:
            self._evict()
        taken = [self._empty.pop() for _ in range(count)]
        self._holders.update(taken)
        return taken

    def give_back(self, blocks: Many[int]) -> list[int]:
        """Ends one owner's hold. Returns those that are empty now: nobody holds them and their text is not known.

        Raises ValueError for a block that is not held.
        """
        emptied = []
        for block in reversed(blocks):  # the end of a text is of use to fewer others than its beginning
            if block not in self._holders:
                raise ValueError(f"block {block} is given back but not held")
            self._holders[block] -= 1
            if self._holders[block]:
                continue
            del self._holders[block]
            if block in self._index:
                self._kept[block] = None
            else:
                self._empty.append(block)
                emptied.append(block)
        return emptied

    def _evict(self) -> None:
        for block in self._index.forget(next(iter(self._kept))):
            if block in self._kept:
                del self._kept[block]
                self._empty.append(block)
