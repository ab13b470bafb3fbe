"""The compiled decoder beside the plain forward pass and beside the reference."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from backstay_runtime import decoder
from backstay_runtime.batch import Slice
from backstay_runtime.kernels.product import four_bit_product, plain_product
from backstay_runtime.model.held import Held, Matrix
from backstay_runtime.model.linear import Dtype, Quantization
from backstay_runtime.model.load import load_llama
from backstay_runtime.runner import Runner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from . import tiny
from .machinery import prompt

FAMILIES = ["LlamaForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM"]
LENGTHS = [1, 23, 9, 2, 16, 17, 5, 3, 30]
WAYS = [
    (Dtype.FLOAT32, Quantization.NONE),
    (Dtype.FLOAT16, Quantization.NONE),
    (Dtype.BFLOAT16, Quantization.NONE),
    (Dtype.FLOAT32, Quantization.INT8),
    (Dtype.FLOAT32, Quantization.INT4),
]


def config_of(family: str) -> dict[str, Any]:
    """Sizes that divide by the 32 weights of a group, and more columns than one line."""
    return {**tiny.CONFIG, "architectures": [family], "intermediate_size": 96}


def runner_of(
    folder: Path,
    threads: int,
    dtype: Dtype = Dtype.FLOAT32,
    quantization: Quantization = Quantization.NONE,
    blocks: int = 160,
) -> Runner:
    cpu = torch.device("cpu")
    model = load_llama(folder, dtype=dtype, quantization=quantization, device=cpu, positions=256)
    return Runner(model, blocks=blocks, block_size=4, threads=threads)


def decoded(runner: Runner, lengths: list[int]) -> torch.Tensor:
    """Logits of a last token each, decoded together after the rest of its prompt was read alone."""
    tables = [list(range(2 + 8 * number, 10 + 8 * number)) for number in range(len(lengths))]
    prompts = [prompt(number, length) for number, length in enumerate(lengths)]
    for number, (one, table) in enumerate(zip(prompts, tables, strict=True)):
        if len(one) > 1:
            runner.run([Slice(number, one[:-1], 0, table)])
    last = [
        Slice(number, one[-1:], len(one) - 1, tables[number][: -(-len(one) // 4)]) for number, one in enumerate(prompts)
    ]
    hidden, first = runner.run(last)
    return runner.logits(hidden, [first[number] for number in range(len(lengths))])


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("family", FAMILIES)
def test_it_gives_the_reference_logits_in_every_family(tmp_path: Path, family: str, threads: int) -> None:
    config = config_of(family)
    weights = tiny.tensors(config)
    runner = runner_of(tiny.write(tmp_path, weights, config), threads)
    found = decoded(runner, LENGTHS).double().numpy()
    runner.close()
    for number, length in enumerate(LENGTHS):
        wanted = tiny.reference_logits(prompt(number, length), weights, config)[-1]
        assert np.abs(found[number] - wanted).max() < 1e-4


@pytest.mark.parametrize("family", FAMILIES)
def test_the_plain_forward_pass_gives_the_reference_logits_too(tmp_path: Path, family: str) -> None:
    config = config_of(family)
    weights = tiny.tensors(config)
    found = decoded(runner_of(tiny.write(tmp_path, weights, config), threads=0), LENGTHS).double().numpy()
    for number, length in enumerate(LENGTHS):
        wanted = tiny.reference_logits(prompt(number, length), weights, config)[-1]
        assert np.abs(found[number] - wanted).max() < 1e-4


@pytest.mark.parametrize(("dtype", "quantization"), WAYS)
def test_it_agrees_with_the_plain_forward_pass_however_weights_are_held(
    tmp_path: Path, dtype: Dtype, quantization: Quantization
) -> None:
    folder = tiny.write(tmp_path, config=config_of(FAMILIES[0]), weights=tiny.tensors(config_of(FAMILIES[0])))
    compiled, plain = (runner_of(folder, threads, dtype, quantization) for threads in (1, 0))
    assert torch.allclose(decoded(compiled, LENGTHS), decoded(plain, LENGTHS), atol=1e-4)
    compiled.close()


@pytest.mark.parametrize(("dtype", "most"), [(Dtype.FLOAT16, 0.01), (Dtype.BFLOAT16, 0.05)])
def test_weights_of_16_bits_keep_the_logits_near_those_of_float32(tmp_path: Path, dtype: Dtype, most: float) -> None:
    """A bfloat16 has 8 bits of precision, so that each weight is off by up to 1 in 512, and a float16 by 1 in 4096."""
    config = config_of(FAMILIES[0])
    folder = tiny.write(tmp_path, tiny.tensors(config), config)
    exact, held = (runner_of(folder, 2, one) for one in (Dtype.FLOAT32, dtype))
    wanted = decoded(exact, LENGTHS)
    off = (decoded(held, LENGTHS) - wanted).abs().max() / wanted.abs().max()
    assert 0 < off < most
    for one in (exact, held):
        one.close()


@pytest.mark.parametrize(("dtype", "most"), [(Dtype.FLOAT16, 0.01), (Dtype.BFLOAT16, 0.1)])
@pytest.mark.parametrize("quantization", [Quantization.NONE, Quantization.INT8])
def test_all_of_it_in_16_bits_as_on_a_gpu_stays_near_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quantization: Quantization, dtype: Dtype, most: float
) -> None:
    config = config_of(FAMILIES[1])  # the one with biases
    folder = tiny.write(tmp_path, tiny.tensors(config), config)
    wanted = decoded(runner_of(folder, 0, quantization=quantization), LENGTHS)
    monkeypatch.setattr("backstay_runtime.model.load.computed_in", lambda dtype, _device: getattr(torch, dtype))
    found = decoded(runner_of(folder, 0, dtype, quantization), LENGTHS)
    assert found.dtype == torch.float32
    assert 0 < (found - wanted).abs().max() / wanted.abs().max() < most


def test_weights_that_are_stored_as_bfloat16_lose_nothing_as_such(tmp_path: Path) -> None:
    config = config_of(FAMILIES[0])
    stored = {name: tensor.bfloat16() for name, tensor in tiny.tensors(config).items()}
    folder = tiny.write(tmp_path, stored, config)
    found = [decoded(runner_of(folder, 0, one), LENGTHS) for one in (Dtype.FLOAT32, Dtype.BFLOAT16)]
    assert torch.equal(*found)


def read(runner: Runner, steps: list[list[Slice]], lengths: dict[int, int]) -> torch.Tensor:
    """Hidden states of every row of all sequences, in the order of their numbers and positions."""
    rows = {number: torch.zeros(length, tiny.CONFIG["hidden_size"]) for number, length in lengths.items()}
    with torch.inference_mode():
        for slices in steps:
            hidden, first = runner.run(slices)
            for one in slices:
                start = first[one.number]
                rows[one.number][one.start : one.end] = hidden[start : start + len(one.tokens)]
    return torch.cat([rows[number] for number in sorted(rows)])


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lengths=st.lists(st.integers(1, 30), min_size=1, max_size=5), threads=st.integers(1, 3), seed=st.integers(0, 99))
def test_prompts_are_read_in_pieces_beside_who_decodes_as_the_plain_way_reads_them(
    folder: Path, lengths: list[int], threads: int, seed: int
) -> None:
    draw = random.Random(seed)
    texts = {number: prompt(number, length) for number, length in enumerate(lengths)}
    tables = {number: list(range(2 + 8 * number, 10 + 8 * number)) for number in texts}
    done, steps = dict.fromkeys(texts, 0), []
    while any(done[number] < len(text) for number, text in texts.items()):
        slices = []
        for number in draw.sample(sorted(texts), draw.randint(1, len(texts))):
            start = done[number]
            count = draw.choice([1, 1, 2, 5, 40])
            if start < len(texts[number]):
                slices.append(Slice(number, texts[number][start : start + count], start, tables[number]))
                done[number] = slices[-1].end
        if slices:
            steps.append(slices)
    compiled, plain = runner_of(folder, threads), runner_of(folder, 0)
    sizes = {number: len(text) for number, text in texts.items()}
    try:
        assert torch.allclose(read(compiled, steps, sizes), read(plain, steps, sizes), atol=1e-3)
    finally:
        compiled.close()


def test_a_piece_that_sees_much_is_read_the_plain_way(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any) -> None:
        raise AssertionError("the compiled step was taken")

    compiled, plain, text = runner_of(folder, 1), runner_of(folder, 0), prompt(1, 24)
    table = list(range(2, 10))
    steps = [[Slice(0, text[:12], 0, table)], [Slice(0, text[12:], 12, table)]]
    monkeypatch.setattr("backstay_runtime.runner.MOST_SEEN", 12 * 12)
    compiled.run(steps[0])
    monkeypatch.setattr(decoder.CompiledDecoder, "hidden", refused)
    found = compiled.run(steps[1])[0]
    with pytest.raises(AssertionError, match="was taken"):
        compiled.run([Slice(0, text[-1:], 24, table)])
    for slices in steps:
        wanted = plain.run(slices)[0]
    assert torch.allclose(found, wanted, atol=1e-3)
    compiled.close()


def test_a_prompts_number_that_is_not_finite_spoils_only_its_own_sequence_from_there_on(folder: Path) -> None:
    weights = tiny.tensors()
    weights["model.embed_tokens.weight"][5] = float("nan")
    runner = runner_of(tiny.write(folder.parent / "nan-prompt", weights), 2)
    hidden, first = runner.run([Slice(0, [6, 7, 5, 8], 0, [2]), Slice(1, [6, 7, 9], 0, [3])])
    assert hidden.isfinite().all(dim=-1).tolist() == [True, True, False, False, True, True, True]
    assert first == {0: 0, 1: 4}
    runner.close()


def test_neighbours_change_nothing(folder: Path) -> None:
    runner = runner_of(folder, 2)
    alone = decoded(runner, LENGTHS[:1])
    assert torch.allclose(decoded(runner, LENGTHS)[:1], alone, atol=1e-5)
    runner.close()


def test_more_sequences_than_it_takes_are_decoded_all_the_same(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoder, "MOST_ROWS", 4)
    lengths = [7] * 5
    compiled, plain = runner_of(folder, 1), runner_of(folder, 0)
    assert torch.allclose(decoded(compiled, lengths), decoded(plain, lengths), atol=1e-4)
    compiled.close()


def test_a_number_that_is_not_finite_stays_in_its_row(folder: Path) -> None:
    weights = tiny.tensors()
    weights["model.embed_tokens.weight"][5] = float("nan")
    runner = runner_of(tiny.write(folder.parent / "nan", weights), 2)
    hidden, _ = runner.run([Slice(0, [5], 0, [2]), Slice(1, [6], 0, [3])])
    assert not bool(hidden[0].isfinite().any())
    assert bool(hidden[1].isfinite().all())
    runner.close()


@pytest.mark.parametrize("rows", [1, 3, 4, 9])
@pytest.mark.parametrize("width", [32, 96, 128])
@pytest.mark.parametrize("held", list(Held))
def test_products_are_those_of_the_widened_weights(held: Held, rows: int, width: int) -> None:
    generator = torch.Generator().manual_seed(rows)
    matrix = Matrix.of(torch.randn(48, width, generator=generator), held)
    given = torch.randn(rows, width, generator=generator)
    bits = {Held.FLOAT16: torch.uint16, Held.BFLOAT16: torch.int16}
    data = matrix.data.view(bits.get(held, matrix.data.dtype)).numpy()
    found = np.full((rows, 48), 7.0, dtype=np.float32)
    product = four_bit_product if held is Held.INT4 else plain_product
    product(given.numpy(), data, matrix.scales.numpy(), 16, 48, found)
    # In float64: on some processors torch's own float32 product is off by nearly as much as is allowed here.
    wanted = (given.double() @ matrix.widened().double().T).numpy()
    assert np.abs(found[:, 16:] - wanted[:, 16:]).max() < 1e-5
    assert bool((found[:, :16] == 7.0).all())


def test_int8_keeps_the_logits_nearer_than_int4(tmp_path: Path) -> None:
    config = config_of(FAMILIES[0])
    folder = tiny.write(tmp_path, tiny.tensors(config), config)
    exact = decoded(runner_of(folder, 0), LENGTHS)
    off = {
        quantization: float((decoded(runner_of(folder, 0, quantization=quantization), LENGTHS) - exact).abs().mean())
        for quantization in Quantization
    }
    assert off[Quantization.NONE] == 0.0 < off[Quantization.INT8] < off[Quantization.INT4] / 4
