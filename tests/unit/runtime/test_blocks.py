import pytest
from backstay_runtime.kv import prefix
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
        self.content: dict[int, int] = {}

    @rule(count=st.integers(0, 12))
    def take(self, count: int) -> None:
        free = self.pool.free
        taken = self.pool.take(count)
        if count > free:
            assert taken is None
            assert self.pool.free == free
        else:
            assert taken is not None
            assert not {block for blocks in self.held for block in blocks} & set(taken)
            self.content.update(dict.fromkeys(taken, -1))
            self.held.append(taken)

    @rule(data=st.data())
    def give_back(self, data: st.DataObject) -> None:
        if self.held:
            self.pool.give_back(self.held.pop(data.draw(st.integers(0, len(self.held) - 1))))

    @rule(text=st.lists(st.integers(0, 1), min_size=1, max_size=4), count=st.integers(1, 6))
    def write(self, text: list[int], count: int) -> None:
        """A text of `count` blocks, each filled with one number: what is known of it is shared, the rest written."""
        numbers = [text[place % len(text)] for place in range(count)]
        tokens = [number for number in numbers for _ in range(16)]
        keys: list[bytes] = []
        prefix.extend(keys, prefix.root("m"), tokens, 16)
        found = self.pool.find(keys, tokens)
        if count - len(found) + self.pool.fresh(found) > self.pool.free:
            return
        self.pool.share(found)
        taken = self.pool.take(count - len(found))
        assert taken is not None
        for block, number in zip(taken, numbers[len(found) :], strict=True):
            self.content[block] = number
        blocks = [*found, *taken]
        self.pool.publish(keys, tokens, blocks)
        assert [self.content[block] for block in blocks] == numbers
        self.held.append(blocks)

    @invariant()
    def every_block_is_free_or_held_and_a_taken_one_is_held_once(self) -> None:
        held = {block for blocks in self.held for block in blocks}
        assert len(held) == self.pool.used
        assert self.pool.free + len(held) == self.total - RESERVED_BLOCKS
        assert self.pool.kept <= self.pool.free
        assert not {PADDING_BLOCK, PROBE_BLOCK} & held


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


def written(pool: BlockPool, tokens: list[int]) -> tuple[list[bytes], list[int]]:
    """Blocks that hold the tokens and are given back again: kept, not held."""
    keys: list[bytes] = []
    prefix.extend(keys, prefix.root("m"), tokens, pool.block_size)
    blocks = pool.take(len(keys))
    assert blocks is not None
    pool.publish(keys, tokens, blocks)
    assert pool.give_back(blocks) == []
    return keys, blocks


def test_a_text_is_found_after_it_was_given_back() -> None:
    pool = BlockPool(8, 2)
    keys, blocks = written(pool, [1, 2, 3, 4])
    assert pool.find(keys, [1, 2, 3, 4]) == blocks
    assert (pool.used, pool.free, pool.kept) == (0, 6, 2)


def test_blocks_with_nothing_in_them_go_first_and_then_the_longest_unused_text_from_its_end() -> None:
    pool = BlockPool(2 + 5, 2)
    old, old_blocks = written(pool, [1, 1, 2, 2])
    new, new_blocks = written(pool, [3, 3, 4, 4])
    assert pool.take(1) == [6]
    assert pool.take(1) == [old_blocks[1]]
    assert pool.find(old, [1, 1, 2, 2]) == old_blocks[:1]
    assert pool.take(1) == [old_blocks[0]]
    assert pool.find(new, [3, 3, 4, 4]) == new_blocks


def test_a_shared_block_is_held_until_its_last_owner_gives_it_back() -> None:
    pool = BlockPool(2 + 2, 2)
    keys, blocks = written(pool, [1, 1])
    pool.share(blocks)
    pool.share(pool.find(keys, [1, 1]))
    pool.give_back(blocks)
    assert (pool.used, pool.free) == (1, 1)
    assert pool.take(2) is None
    pool.give_back(blocks)
    assert pool.take(2) is not None
    assert pool.find(keys, [1, 1]) == []
