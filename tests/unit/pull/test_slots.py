"""Slots: so many and no more, and nobody waits for one after a stop."""

import threading

from backstay_runtime.pull.slots import Slots
from hypothesis import given
from hypothesis import strategies as st


def never() -> bool:
    return False


@given(st.integers(1, 5), st.lists(st.integers(0, 3), max_size=20))
def test_as_many_can_be_taken_as_are_free(count: int, gives: list[int]) -> None:
    slots, out = Slots(count), 0
    for give in gives:
        while out < count:
            assert slots.take(never)
            out += 1
        given_back = min(give, out)
        slots.give(given_back)
        out -= given_back
    assert out <= count


def test_who_waits_gets_the_slot_that_is_given_back() -> None:
    slots, got = Slots(1), list[bool]()
    assert slots.take(never)
    waiting = threading.Thread(target=lambda: got.append(slots.take(never)))
    waiting.start()
    waiting.join(0.05)
    assert waiting.is_alive()
    slots.give(1)
    waiting.join(10)
    assert got == [True]


def test_nobody_waits_after_a_stop() -> None:
    slots = Slots(1)
    assert slots.take(never)
    assert not slots.take(lambda: True)
