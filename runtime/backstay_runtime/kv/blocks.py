"""Which sequence holds which block of the key/value cache. Pure."""

PADDING_BLOCK = 0
"""Never written and never owned: block tables of unequal length are filled up with it."""

PROBE_BLOCK = 1
"""Set aside for the readiness probe, so that a full cache does not make the server look dead."""

RESERVED_BLOCKS = 2


class BlockPool:
    """Hands out blocks of `block_size` tokens.

    Invariant: every block of [RESERVED_BLOCKS, total) is either free or held by exactly one owner.
    """

    def __init__(self, total: int, block_size: int) -> None:
        """`total` counts the reserved blocks too."""
        if total <= RESERVED_BLOCKS:
            raise ValueError(f"{total} blocks leave none for requests: {RESERVED_BLOCKS} are reserved")
        self.block_size = block_size
        self.capacity = total - RESERVED_BLOCKS
        # Taken from the end, so the lowest numbers go first and the cache's memory fills from its start.
        self._free = list(range(total - 1, RESERVED_BLOCKS - 1, -1))
        self._held: set[int] = set()

    @property
    def free(self) -> int:
        """Blocks that nobody holds."""
        return len(self._free)

    @property
    def used(self) -> int:
        """Blocks that sequences hold."""
        return len(self._held)

    def needed(self, tokens: int) -> int:
        """Blocks that hold this many tokens."""
        return -(-tokens // self.block_size)

    def take(self, count: int) -> list[int] | None:
        """`count` blocks, or None (and nothing taken) when fewer are free."""
        if count > len(self._free):
            return None
        taken = [self._free.pop() for _ in range(count)]
        self._held.update(taken)
        return taken

    def give_back(self, blocks: list[int]) -> None:
        """Frees blocks that were taken. Raises ValueError for one that is not held."""
        for block in blocks:
            if block not in self._held:
                raise ValueError(f"block {block} is given back but not held")
            self._held.remove(block)
            self._free.append(block)
