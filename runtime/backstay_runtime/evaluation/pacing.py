"""When the evaluation may take the engine, and for how many tokens. Pure: times are arguments, in seconds."""

FIRST_IDLE_SHARE = 1.0
"""Of the time, in the first round, while nobody waits: the flip waits for it."""
IDLE_SHARE = 0.02
"""Afterwards, while nobody waits."""
BUSY_SHARE = 0.005
"""While there are requests: a chunk then delays their next token."""
ROUND_PAUSE = 60.0
"""From the end of a round to the begin of the next, at least."""
CHUNK_SECONDS = 0.05
"""What a chunk should take: a request that comes meanwhile waits for its end."""
SMALLEST_CHUNK, FIRST_CHUNK, LARGEST_CHUNK = 8, 16, 64
"""Tokens. Fewer than the smallest would take as long: the weights are read once for all of them."""


class Pacing:
    """Spaces the chunks so that they take no more than their share of the time."""

    def __init__(self) -> None:
        self.chunk = FIRST_CHUNK
        """Tokens to compute at once."""
        self._rounds = 0
        self._ended: float | None = None
        self._seconds = 0.0
        self._not_before = 0.0

    def pause(self, now: float, *, idle: bool) -> float:
        """Seconds until the next chunk may begin; 0: now."""
        if self._ended is None:
            return 0.0
        share = BUSY_SHARE
        if idle:
            share = IDLE_SHARE if self._rounds else FIRST_IDLE_SHARE
        due = max(self._ended + self._seconds * (1 / share - 1), self._not_before)
        return max(0.0, due - now)

    def spent(self, began: float, ended: float) -> None:
        """A chunk was computed; the next ones take as many tokens as fit into CHUNK_SECONDS."""
        self._ended, self._seconds = ended, ended - began
        if self._seconds > CHUNK_SECONDS:
            self.chunk = max(SMALLEST_CHUNK, self.chunk // 2)
        elif self._seconds < CHUNK_SECONDS / 3:
            self.chunk = min(LARGEST_CHUNK, self.chunk * 2)

    def round_over(self, ended: float) -> None:
        """The whole set was computed."""
        self._rounds += 1
        self._not_before = ended + ROUND_PAUSE
