import pytest
from backstay_runtime.schedule.packing import Cost, Packer, Text
from hypothesis import given
from hypothesis import strategies as st

LENGTHS = st.lists(st.integers(1, 120), min_size=1, max_size=60)


def packer(budget: int = 128, most_texts: int = 8, most_wait: float = 0.01) -> Packer:
    return Packer(budget=budget, most_texts=most_texts, most_wait=most_wait)


def fill(one: Packer, lengths: list[int]) -> None:
    for number, tokens in enumerate(lengths):
        one.add(Text(tokens, number, arrival=float(number)))


def batches(one: Packer) -> list[list[Text]]:
    found = []
    while len(one):
        found.append(one.take())
    return found


@given(LENGTHS)
def test_every_text_is_in_one_batch_and_no_batch_is_beyond_the_budget(lengths: list[int]) -> None:
    one = packer()
    fill(one, lengths)
    found = batches(one)
    assert sorted(text.number for batch in found for text in batch) == list(range(len(lengths)))
    for batch in found:
        padded = max(text.tokens for text in batch) * len(batch)
        assert 1 <= len(batch) <= 8
        assert padded <= 128 or len(batch) == 1


@given(LENGTHS)
def test_the_oldest_is_in_the_next_batch_so_none_starves(lengths: list[int]) -> None:
    one = packer()
    fill(one, lengths)
    left = set(range(len(lengths)))
    for batch in batches(one):
        assert min(left) in {text.number for text in batch}
        left -= {text.number for text in batch}


@given(LENGTHS)
def test_a_batch_is_a_run_of_the_texts_sorted_by_length(lengths: list[int]) -> None:
    one = packer()
    fill(one, lengths)
    before = sorted((tokens, number) for number, tokens in enumerate(lengths))
    taken = [(text.tokens, text.number) for text in one.take()]
    place = before.index(taken[0])
    assert before[place : place + len(taken)] == taken


def test_texts_of_one_length_go_together_and_a_long_one_goes_alone() -> None:
    one = packer()
    fill(one, [10, 100, 11, 12, 99, 10])
    assert [[text.tokens for text in batch] for batch in batches(one)] == [[10, 10, 11, 12], [100], [99]]


def test_nobody_waits_for_company_before_anything_was_learned() -> None:
    one = packer()
    fill(one, [10])
    assert one.start_at() == 0.0


def test_company_is_waited_for_as_long_as_the_fixed_part_of_a_batch_lasts_and_no_longer() -> None:
    one = packer()
    for tokens in (10, 100):
        one.cost.learn(tokens, 0.004 + 0.0001 * tokens)
    fill(one, [10])
    assert one.start_at() == pytest.approx(0.004)


def test_a_text_never_waits_longer_than_the_most() -> None:
    one = packer(most_wait=0.002)
    for tokens in (10, 100):
        one.cost.learn(tokens, 5.0 + 0.0001 * tokens)
    fill(one, [10])
    assert one.start_at() == pytest.approx(0.002)


def test_a_full_batch_waits_for_nobody() -> None:
    one = packer(budget=20)
    one.cost.learn(10, 1.0)
    one.cost.learn(20, 1.1)
    fill(one, [10, 10, 10])
    assert one.start_at() == 0.0


def test_nothing_starts_while_nothing_waits() -> None:
    one = packer()
    assert one.start_at() is None
    assert one.take() == []


def test_a_dropped_text_is_in_no_batch() -> None:
    one = packer()
    fill(one, [10, 10, 10])
    one.drop([0, 2])
    assert [text.number for text in one.take()] == [1]


@given(slope=st.floats(1e-6, 1e-2), base=st.floats(0, 1), sizes=st.lists(st.integers(1, 2000), min_size=2, max_size=40))
def test_the_cost_of_a_machine_that_is_a_line_is_learned(slope: float, base: float, sizes: list[int]) -> None:
    cost = Cost()
    for tokens in sizes:
        cost.learn(tokens, slope * tokens + base)
    for tokens in sizes:
        if len(set(sizes)) > 1:
            assert cost.seconds(tokens) == pytest.approx(slope * tokens + base, rel=1e-2, abs=1e-4)


@given(st.lists(st.tuples(st.integers(1, 4000), st.floats(0, 10)), max_size=40))
def test_the_cost_is_never_below_nothing(seen: list[tuple[int, float]]) -> None:
    cost = Cost()
    for tokens, seconds in seen:
        cost.learn(tokens, seconds)
    assert min(cost.line) >= 0.0


def test_a_machine_that_becomes_slower_is_noticed() -> None:
    cost = Cost()
    for round_ in range(300):
        for tokens in (10, 100):
            cost.learn(tokens, tokens * (0.001 if round_ < 100 else 0.003))
    assert cost.seconds(50) == pytest.approx(0.15, rel=0.02)


def test_the_backlog_is_what_its_batches_should_take() -> None:
    one = packer(budget=100)
    for tokens in (10, 100):
        one.cost.learn(tokens, 0.01 + 0.001 * tokens)
    assert one.backlog_seconds() == 0.0
    fill(one, [50, 50, 50])
    assert one.backlog_seconds() == pytest.approx(0.15 + 2 * 0.01)
