import pytest
from backstay_runtime.model.errors import ModelError
from backstay_runtime.model.placement import MEMORY_FRACTION, Needs, place
from hypothesis import given
from hypothesis import strategies as st

MI = 1 << 20
SIZES = st.integers(0, 40).map(lambda size: size * MI)
NEEDS = st.builds(Needs, SIZES, st.lists(SIZES, min_size=1, max_size=12).map(tuple), SIZES)
FREE = st.lists(st.integers(1, 200).map(lambda size: size * MI), min_size=1, max_size=4)


def fits(needs: Needs, free: list[int], ends: list[int]) -> bool:
    """Whether layers cut at `ends` fit on as many devices."""
    room = [int(one * MEMORY_FRACTION) for one in free[: len(ends)]]
    room[0] -= needs.embedding
    # A head that is the embedding is copied to where it is needed.
    room[-1] -= needs.head or (needs.embedding if len(ends) > 1 else 0)
    starts = [0, *ends[:-1]]
    return all(left >= sum(needs.layers[a:b]) for left, a, b in zip(room, starts, ends, strict=True))


def cuts(layers: int, devices: int) -> list[list[int]]:
    """Every way to cut the layers into as many runs, empty ones too."""
    if devices == 1:
        return [[layers]]
    return [[*before, layers] for at in range(layers + 1) for before in cuts(at, devices - 1)]


@given(needs=NEEDS, free=FREE)
def test_every_layer_is_placed_once_in_order_and_within_its_device(needs: Needs, free: list[int]) -> None:
    try:
        spans = place(needs, free)
    except ModelError:
        return
    assert [layer for span in spans for layer in span] == list(range(len(needs.layers)))
    assert fits(needs, free, [span.stop for span in spans])


@given(needs=NEEDS, free=FREE)
def test_no_way_is_overlooked_and_none_uses_fewer_devices(needs: Needs, free: list[int]) -> None:
    possible = [
        devices
        for devices in range(1, len(free) + 1)
        if any(fits(needs, free, ends) for ends in cuts(len(needs.layers), devices))
    ]
    if possible:
        assert len(place(needs, free)) == possible[0]
    else:
        with pytest.raises(ModelError):
            place(needs, free)


def test_a_model_that_fits_on_one_device_stays_there() -> None:
    assert place(Needs(10 * MI, (10 * MI,) * 4, 10 * MI), [100 * MI, 100 * MI]) == [range(4)]


def test_each_device_is_filled_before_the_next() -> None:
    assert place(Needs(0, (30 * MI,) * 4, 0), [100 * MI, 100 * MI, 100 * MI]) == [range(2), range(2, 4)]


def test_a_refusal_says_what_is_needed_and_what_there_is() -> None:
    with pytest.raises(ModelError, match=r"need 120 MiB, and 2 devices offer 42 \+ 42 MiB \(85% of what is free\)"):
        place(Needs(10 * MI, (50 * MI, 50 * MI), 10 * MI), [50 * MI, 50 * MI])


def test_the_cache_counts_with_each_layer() -> None:
    needs = Needs(MI, (MI, MI), MI).with_cache(tokens=1024, bytes_per_token=4096)
    assert needs.layers == (3 * MI, 3 * MI)
    assert needs.bytes == 8 * MI
