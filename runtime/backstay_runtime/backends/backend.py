"""What a way of attending over the paged cache is."""

from typing import Protocol

from backstay_runtime.batch import Layout
from backstay_runtime.model.llama import Attention


class AttentionBackend(Protocol):
    """Attends over one stage's cache. Not thread-safe: one thread calls it."""

    def attention(self, layout: Layout) -> Attention:
        """What the stage's layers call in one step: good until the next step's is asked for.

        It is given the layout's rows, in order, and maybe more behind them, which only fill up the batch: those are
        stored nowhere, attend to nothing and come out as zeros.
        """
        ...
