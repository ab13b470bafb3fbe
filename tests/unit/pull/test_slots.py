"""Buffers: so many and no more, used again, and nobody waits for one after a stop."""

import threading

from backstay_runtime.pull.buffers import Buffers
from hypothesis import given
from hypothesis import strategies as st


def never() -> bool:
    return False


@given(st.lists(st.booleans(), max_size=40))
def test_there_are_never_more_buffers_than_agreed(takes: list[bool]) -> None:
    buffers, out, seen = Buffers(3, 16), list[bytearray](), set[int]()
    kept: list[bytearray] = []
    for take in takes:
        if take and len(out) < 3:
            found = buffers.take(never)
            assert found is not None
            out.append(found)
            kept.append(found)
            seen.add(id(found))
        elif not take and out:
            buffers.give(out.pop())
    assert len(seen) <= 3


def test_who_waits_gets_the_buffer_that_is_given_back() -> None:
    buffers, got = Buffers(1, 16), list[bytearray | None]()
    first = buffers.take(never)
    assert first is not None
    waiting = threading.Thread(target=lambda: got.append(buffers.take(never)))
    waiting.start()
    buffers.give(first)
    waiting.join(10)
    assert got[0] is first


def test_nobody_waits_after_a_stop() -> None:
    buffers = Buffers(1, 16)
    assert buffers.take(never) is not None
    assert buffers.take(lambda: True) is None
