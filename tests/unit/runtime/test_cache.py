import torch
from backstay_runtime.kv.cache import KVCache

CPU = torch.device("cpu")


def resident() -> int:
    """Bytes of memory that this process occupies."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4096


def make(blocks: int) -> KVCache:
    return KVCache(blocks, 16, layers=2, kv_heads=3, head_dim=64, device=CPU, dtype=torch.float32)


def test_a_cache_that_nobody_uses_takes_no_memory() -> None:
    before = resident()
    cache = make(20_000)  # 983 MB
    assert not bool(cache.layers[1][12_345].any())
    assert resident() - before < 50_000_000


def test_what_is_written_is_read_in_the_order_of_the_table() -> None:
    cache = make(8)
    rows = torch.randn(20, 2, 3, 64, generator=torch.Generator().manual_seed(0))
    places = [5 * 16 + at for at in range(16)] + [3 * 16 + at for at in range(4)]
    cache.write(1, torch.tensor(places), rows)
    keys, values = cache.read(1, torch.tensor([5, 3, 3, 0]), 2)
    assert keys.shape == values.shape == (2, 3, 32, 64)
    assert torch.equal(keys[0, :, :20].transpose(0, 1), rows[:, 0])
    assert torch.equal(values[0, :, :20].transpose(0, 1), rows[:, 1])
    assert torch.equal(keys[1, :, :4].transpose(0, 1), rows[16:, 0])
    assert not bool(keys[0, :, 20:].any())
    assert not bool(cache.layers[0].any())


def test_cleared_blocks_are_zero_in_every_layer() -> None:
    cache = make(8)
    for layer in range(2):
        cache.write(layer, torch.arange(16, 48), torch.full((32, 2, 3, 64), float("nan")))
    cache.clear([1])
    for held in cache.layers:
        assert not bool(held[1].any())
        assert bool(held[2].isnan().all())
