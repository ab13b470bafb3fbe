import pytest
from backstay_runtime.kv.blocks import PADDING_BLOCK, PROBE_BLOCK, RESERVED_BLOCKS, BlockPool
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule


class AnyUseOfThePool(RuleBasedStateMachine):
    """Takes and gives back in any order."""

    @initialize(total=st.integers(3, 40))
    def start(self, total: int) -> None:
        self.total = total
        self.pool = BlockPool(total, 16)
        self.held: list[list[int]] = []

    @rule(count=st.integers(0, 12))
    def take(self, count: int) -> None:
        free = self.pool.free
        taken = self.pool.take(count)
        if count > free:
            assert taken is None
            assert self.pool.free == free
        else:
            assert taken is not None
            self.held.append(taken)

    @rule(data=st.data())
    def give_back(self, data: st.DataObject) -> None:
        if self.held:
            self.pool.give_back(self.held.pop(data.draw(st.integers(0, len(self.held) - 1))))

    @invariant()
    def every_block_is_free_or_held_once(self) -> None:
        held = [block for blocks in self.held for block in blocks]
        assert len(held) == len(set(held)) == self.pool.used
        assert self.pool.free + len(held) == self.total - RESERVED_BLOCKS
        assert not {PADDING_BLOCK, PROBE_BLOCK} & set(held)


TestAnyUseOfThePool = AnyUseOfThePool.TestCase


def test_a_block_that_is_not_held_cannot_be_given_back() -> None:
    pool = BlockPool(8, 16)
    taken = pool.take(1)
    assert taken is not None
    pool.give_back(taken)
    with pytest.raises(ValueError, match="not held"):
        pool.give_back(taken)


@pytest.mark.parametrize(("tokens", "blocks"), [(0, 0), (1, 1), (16, 1), (17, 2)])
def test_tokens_are_rounded_up_to_blocks(tokens: int, blocks: int) -> None:
    assert BlockPool(8, 16).needed(tokens) == blocks


def test_a_pool_without_a_block_for_requests_is_refused() -> None:
    with pytest.raises(ValueError, match="2 are reserved"):
        BlockPool(2, 16)
