import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from backstay_runtime.model.bert import Bert
from backstay_runtime.model.bert_load import is_encoder, load_bert, read_pooling
from backstay_runtime.model.errors import ModelError

from . import tiny, tiny_bert

CPU = torch.device("cpu")
TEXTS = [[2, 5, 3], [2, 7, 10, 11, 5, 12, 3], [2, 9, 8, 3], [2, 3]]


@pytest.fixture
def embedder(tmp_path: Path) -> Bert:
    return load_bert(tiny_bert.write(tmp_path / "embedder"), CPU)


def test_vectors_are_the_references_in_a_batch_of_different_lengths(embedder: Bert) -> None:
    for ids, vector in zip(TEXTS, embedder(TEXTS).double().numpy(), strict=True):
        assert np.abs(vector - tiny_bert.reference_vector(ids, tiny_bert.tensors())).max() < 1e-5


def test_a_text_in_a_batch_is_as_it_is_alone(embedder: Bert) -> None:
    for ids, vector in zip(TEXTS, embedder(TEXTS), strict=True):
        assert torch.allclose(embedder([ids])[0], vector, atol=1e-6)


def test_vectors_have_length_1_only_where_the_model_says_so(tmp_path: Path, embedder: Bert) -> None:
    as_they_come = load_bert(tiny_bert.write(tmp_path / "other", unit=False), CPU)
    assert torch.allclose(embedder(TEXTS).norm(dim=-1), torch.ones(4))
    assert not torch.allclose(as_they_come(TEXTS).norm(dim=-1), torch.ones(4))


def test_classes_are_the_references(tmp_path: Path) -> None:
    folder = tiny_bert.write(tmp_path, tiny_bert.CLASSIFIER)
    weights = tiny_bert.tensors(tiny_bert.CLASSIFIER)
    for ids, found in zip(TEXTS, load_bert(folder, CPU)(TEXTS).double().numpy(), strict=True):
        assert np.abs(found - tiny_bert.reference_classes(ids, weights)).max() < 1e-5


def test_classes_that_do_not_exclude_each_other_need_not_sum_to_1(tmp_path: Path) -> None:
    config = {**tiny_bert.CLASSIFIER, "problem_type": "multi_label_classification"}
    sums = load_bert(tiny_bert.write(tmp_path, config), CPU)(TEXTS).sum(dim=-1)
    assert not torch.allclose(sums, torch.ones(4), atol=1e-2)


def test_the_first_tokens_state_is_the_vector_where_the_model_says_cls(tmp_path: Path) -> None:
    folder = tiny_bert.write(tmp_path, unit=False)
    (folder / "1_Pooling/config.json").write_text(json.dumps({"pooling_mode_cls_token": True}))
    wanted = tiny_bert.reference(TEXTS[1], tiny_bert.tensors())[0]
    assert np.abs(load_bert(folder, CPU)([TEXTS[1]])[0].double().numpy() - wanted).max() < 1e-5


@pytest.mark.parametrize("pooling", [{"pooling_mode_max_tokens": True}, {"pooling_mode_weightedmean_tokens": True}])
def test_a_pooling_that_cannot_be_run_is_refused(tmp_path: Path, pooling: dict[str, bool]) -> None:
    folder = tiny_bert.write(tmp_path)
    (folder / "1_Pooling/config.json").write_text(json.dumps(pooling))
    with pytest.raises(ModelError, match="cannot be run"):
        load_bert(folder, CPU)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"hidden_act": "swish"}, "hidden_act 'swish' cannot be run"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type"),
        ({"num_attention_heads": 5}, "no multiple of num_attention_heads"),
        ({"hidden_size": 0}, "hidden_size is 0"),
    ],
)
def test_what_would_be_computed_wrongly_is_refused(tmp_path: Path, changed: dict[str, Any], said: str) -> None:
    folder = tiny_bert.write(tmp_path)
    (folder / "config.json").write_text(json.dumps({**tiny_bert.CONFIG, **changed}))
    with pytest.raises(ModelError, match=said):
        load_bert(folder, CPU)


def test_a_missing_tensor_is_named_and_an_unused_pooler_is_not(tmp_path: Path) -> None:
    weights = tiny_bert.tensors()
    del weights["encoder.layer.1.output.dense.bias"]
    with pytest.raises(ModelError, match=r"missing: encoder\.layer\.1\.output\.dense\.bias$"):
        load_bert(tiny_bert.write(tmp_path, weights=weights), CPU)


def test_the_longest_text_is_what_its_files_say_within_the_positions(tmp_path: Path) -> None:
    folder = tiny_bert.write(tmp_path)
    config = load_bert(folder, CPU).config
    assert read_pooling(folder, config).max_length == 16
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 99}')
    assert read_pooling(folder, config).max_length == 32


def test_encoders_are_told_from_decoders(tmp_path: Path, folder: Path) -> None:
    assert is_encoder(tiny_bert.write(tmp_path))
    assert not is_encoder(folder)
    assert tiny.CONFIG["architectures"] == ["LlamaForCausalLM"]
