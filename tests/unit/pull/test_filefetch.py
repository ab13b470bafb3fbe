"""One file on its way: what the hash may read, and which pieces keep the network waiting."""

import threading

import pytest
from backstay_contract.manifest import ModelFile
from backstay_runtime.pull.extents import Extents, Interval
from backstay_runtime.pull.filefetch import FileFetch, Stop, StoppedError
from backstay_runtime.pull.storage import Facts
from hypothesis import given
from hypothesis import strategies as st

SIZE = 1000


def fetch_of(*have: tuple[int, int]) -> FileFetch:
    return FileFetch(ModelFile(path="w", size=SIZE, sha256="0" * 64), Facts(SIZE, "etag"), Extents(have))


@given(st.permutations(range(10)), st.integers(1, 400))
def test_pieces_that_arrive_in_any_order_are_hashed_once_and_in_the_files_order(order: list[int], most: int) -> None:
    fetch, stop, at, ended = fetch_of(), Stop(), 0, 0
    begun = fetch.pieces(most)
    assert all(fetch.begin(piece) for piece in begun)
    for tenth in order:
        fetch.written(tenth * 100, (tenth + 1) * 100)
        if tenth * 100 <= at < (tenth + 1) * 100:
            at = fetch.on_disk_beyond(at, stop)
            ended += fetch.hashed(at)
    assert (at, ended, fetch.close()) == (SIZE, len(begun), 0)


def test_bytes_of_an_earlier_process_are_hashed_without_a_request() -> None:
    fetch = fetch_of((0, 300), (600, SIZE))
    assert fetch.on_disk_beyond(0, Stop()) == 300
    assert fetch.pieces(SIZE) == [Interval(300, 600)]


def test_the_hash_waits_for_bytes_and_goes_on_when_they_are_written() -> None:
    fetch, got = fetch_of(), list[int]()
    waiting = threading.Thread(target=lambda: got.append(fetch.on_disk_beyond(0, Stop())))
    waiting.start()
    fetch.written(500, 600)
    fetch.written(0, 100)
    waiting.join(10)
    assert got == [100]


def test_nobody_waits_for_an_object_that_was_replaced_nor_after_a_stop() -> None:
    replaced, stop = fetch_of(), Stop()
    replaced.replaced()
    with pytest.raises(StoppedError):
        replaced.on_disk_beyond(0, stop)
    stop.fail(KeyError("killed"))
    with pytest.raises(StoppedError):
        fetch_of().on_disk_beyond(0, stop)


def test_after_the_close_no_piece_is_begun_and_those_that_were_are_counted_once() -> None:
    fetch = fetch_of()
    assert all(fetch.begin(piece) for piece in fetch.pieces(300))
    assert (fetch.close(), fetch.close()) == (4, 0)
    assert not fetch.begin(Interval(0, 300))
