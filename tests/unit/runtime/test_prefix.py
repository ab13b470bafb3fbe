"""Finding blocks by the text they hold."""

import pytest
from backstay_runtime.kv import prefix
from backstay_runtime.kv.prefix import PrefixIndex
from hypothesis import given
from hypothesis import strategies as st

SIZE = 2
ROOT = prefix.root("sha256:a")


def keys_of(tokens: list[int], root: bytes = ROOT) -> list[bytes]:
    keys: list[bytes] = []
    prefix.extend(keys, root, tokens, SIZE)
    return keys


def add(index: PrefixIndex, tokens: list[int], blocks: list[int]) -> None:
    index.add(keys_of(tokens), tokens, blocks, SIZE)


def find(index: PrefixIndex, tokens: list[int], root: bytes = ROOT) -> list[int]:
    return index.find(keys_of(tokens, root), tokens, SIZE)


def test_the_longest_known_beginning_is_found() -> None:
    index = PrefixIndex()
    add(index, [1, 2, 3, 4, 5, 6], [7, 8, 9])
    assert find(index, [1, 2, 3, 4, 9, 9]) == [7, 8]
    assert find(index, [1, 2, 3]) == [7]
    assert find(index, [3, 4]) == []


@pytest.mark.case("I29")
def test_another_model_or_another_salt_finds_nothing() -> None:
    index = PrefixIndex()
    add(index, [1, 2], [7])
    assert find(index, [1, 2], prefix.root("sha256:b")) == []
    assert find(index, [1, 2], prefix.root("sha256:a", "tenant")) == []


def test_a_model_and_a_salt_cannot_be_cut_in_two_ways() -> None:
    assert prefix.root("ab", "c") != prefix.root("a", "bc")


def test_keys_grow_with_the_text_and_never_change() -> None:
    keys = keys_of([1, 2, 3])
    prefix.extend(keys, ROOT, [1, 2, 3, 4, 5], SIZE)
    assert keys == keys_of([1, 2, 3, 4, 5])


def test_the_first_block_of_a_text_stays_the_one_that_is_found() -> None:
    index = PrefixIndex()
    add(index, [1, 2], [7])
    add(index, [1, 2, 3, 4], [8, 9])
    assert find(index, [1, 2, 3, 4]) == [7, 9]
    assert 8 not in index


def test_with_a_block_those_that_follow_it_are_forgotten() -> None:
    index = PrefixIndex()
    add(index, [1, 2, 3, 4], [7, 8])
    add(index, [1, 2, 5, 6], [7, 9])
    assert sorted(index.forget(7)) == [7, 8, 9]
    assert len(index) == 0
    assert find(index, [1, 2, 3, 4]) == []


def test_after_the_end_of_a_text_is_forgotten_its_beginning_is_found() -> None:
    index = PrefixIndex()
    add(index, [1, 2, 3, 4], [7, 8])
    assert index.forget(8) == [8]
    assert find(index, [1, 2, 3, 4]) == [7]
    assert index.forget(7) == [7]


texts = st.lists(st.integers(0, 2), min_size=2, max_size=8)


@given(st.lists(texts, max_size=8), texts)
def test_what_is_found_holds_the_asked_text_even_if_all_keys_are_equal(
    known: list[list[int]], asked: list[int]
) -> None:
    index, content, number = PrefixIndex(), {}, 0
    for text in known:
        blocks = []
        for place in range(len(text) // SIZE):
            blocks.append(number := number + 1)
            content[number] = tuple(text[: (place + 1) * SIZE])
        index.add([b"same"] * len(blocks), text, blocks, SIZE)
    found = index.find([b"same"] * (len(asked) // SIZE), asked, SIZE)
    assert [content[block] for block in found] == [tuple(asked[: (at + 1) * SIZE]) for at in range(len(found))]


@given(st.lists(texts, max_size=10), st.data())
def test_whatever_is_forgotten_a_parent_is_always_there(known: list[list[int]], data: st.DataObject) -> None:
    index, number = PrefixIndex(), 0
    there: dict[int, tuple[int, ...]] = {}
    for text in known:
        blocks = [number := number + 1 for _ in range(len(text) // SIZE)]
        add(index, text, blocks)
        there.update({block: tuple(text[: (at + 1) * SIZE]) for at, block in enumerate(blocks) if block in index})
        forgets: bool = data.draw(st.booleans())
        if there and forgets:
            for gone in index.forget(data.draw(st.sampled_from(sorted(there)))):
                del there[gone]
    for whole in set(there.values()):
        found = find(index, list(whole))
        assert [there[block] for block in found] == [whole[: (at + 1) * SIZE] for at in range(len(found))]
        assert len(found) == len(whole) // SIZE


@pytest.mark.parametrize("tokens", [[], [1]])
def test_a_text_shorter_than_a_block_has_no_key(tokens: list[int]) -> None:
    assert keys_of(tokens) == []
