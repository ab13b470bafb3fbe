from backstay_runtime.batch import Slice, lay_out
from backstay_runtime.kv.blocks import PADDING_BLOCK
from hypothesis import given
from hypothesis import strategies as st


def slices() -> st.SearchStrategy[list[Slice]]:
    shapes = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 9)), min_size=1, max_size=6)
    return shapes.map(
        lambda found: [
            Slice(
                number,
                [1000 * number + place for place in range(count)],
                start,
                list(range(10 * number, 10 * number + 13)),
            )
            for number, (start, count) in enumerate(found)
        ]
    )


@given(slices())
def test_every_token_has_one_row_at_its_own_place(given_: list[Slice]) -> None:
    layout = lay_out(given_, 4)
    assert sorted(layout.tokens) == sorted(token for one in given_ for token in one.tokens)
    for one in given_:
        first = layout.first_row[one.number]
        rows = slice(first, first + len(one.tokens))
        assert layout.tokens[rows] == list(one.tokens)
        assert layout.positions[rows] == list(range(one.start, one.end))
        assert layout.slots[rows] == [one.blocks[at // 4] * 4 + at % 4 for at in range(one.start, one.end)]


@given(slices())
def test_groups_cover_the_rows_and_pad_tables_with_nobodys_block(given_: list[Slice]) -> None:
    layout = lay_out(given_, 4)
    assert sum(len(one.tokens) for group in layout.groups for one in group.slices) == len(layout.tokens)
    for group in layout.groups:
        assert len({len(one.tokens) for one in group.slices}) == 1
        for place, one in enumerate(group.slices):
            table = group.blocks[place * group.width : (place + 1) * group.width]
            needed = -(-one.end // 4)
            assert list(table[:needed]) == list(one.blocks[:needed])
            assert set(table[len(one.blocks) :]) <= {PADDING_BLOCK}


def test_one_long_sequence_does_not_pad_the_short_ones() -> None:
    short = [Slice(number, [7], 3, [number]) for number in range(7)]
    long = Slice(9, [7], 399, list(range(100, 200)))
    layout = lay_out([*short, long], 4)
    assert [group.width for group in layout.groups] == [1, 100]


def test_sequences_of_like_length_decode_in_one_group() -> None:
    layout = lay_out([Slice(number, [7], 20 + number, list(range(20))) for number in range(8)], 4)
    assert len(layout.groups) == 1
