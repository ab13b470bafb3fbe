from pathlib import Path

import pytest
from backstay_runtime.model.errors import ModelError
from backstay_runtime.text.detokenizer import BROKEN, Detokenizer
from backstay_runtime.text.stops import StopStrings
from backstay_runtime.text.template import ChatTemplate, TemplateError, load_template
from backstay_runtime.text.tokenizer import Tokenizer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from . import tiny


@pytest.fixture(scope="session")
def tokenizer(folder: Path) -> Tokenizer:
    return Tokenizer(folder)


def pieces(tokenizer: Tokenizer, ids: list[int]) -> list[str]:
    """What a stream shows, token by token."""
    detokenizer = Detokenizer(tokenizer.decode)
    return [*(detokenizer.push(one) for one in ids), detokenizer.flush()]


@given(text=st.text())
@pytest.mark.case("I5")
def test_any_text_comes_out_as_it_went_in_without_half_a_character(text: str, tokenizer: Tokenizer) -> None:
    shown = pieces(tokenizer, list(text.encode()))
    assert "".join(shown) == text
    if BROKEN not in text:
        assert not any(BROKEN in piece for piece in shown)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(ids=st.lists(st.integers(0, 257), max_size=60))
@pytest.mark.case("I5")
def test_any_tokens_join_to_the_text_of_all_of_them(ids: list[int], tokenizer: Tokenizer) -> None:
    assert "".join(pieces(tokenizer, ids)) == tokenizer.decode(ids)


def test_bytes_that_never_become_a_character_are_not_held_for_ever(tokenizer: Tokenizer) -> None:
    detokenizer = Detokenizer(tokenizer.decode)
    assert any(detokenizer.push(0x80) for _ in range(100))


def test_a_character_appears_with_its_last_byte(tokenizer: Tokenizer) -> None:
    assert pieces(tokenizer, list("a🍕".encode())) == ["a", "", "", "", "🍕", ""]


def test_a_character_that_is_cut_by_the_end_is_shown_as_broken(tokenizer: Tokenizer) -> None:
    assert "".join(pieces(tokenizer, list("a🍕".encode()[:-1]))) == "a" + BROKEN


def test_special_tokens_are_parsed_and_not_shown(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode("a<|im_end|>") == [97, tiny.END]
    assert tokenizer.decode([97, tiny.END, 98]) == "ab"
    assert tokenizer.decode([97, tiny.END], skip_special=False) == "a<|im_end|>"


def test_a_token_that_is_part_of_a_character_has_a_name_and_its_bytes(tokenizer: Tokenizer) -> None:
    assert tokenizer.token(0xF0) == "bytes:\\xf0"
    assert tokenizer.token_bytes(0xF0) == b"\xf0"
    assert tokenizer.token(97) == "a"
    assert tokenizer.token(tiny.END) == "<|im_end|>"
    assert tokenizer.token_bytes(9999) == b""


def test_a_broken_tokenizer_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ModelError, match=r"tokenizer\.json cannot be read"):
        Tokenizer(tmp_path)


def stopped(text: str, stops: list[str], cuts: list[int]) -> tuple[list[str], bool]:
    """What is shown of a text that arrives in pieces."""
    one, shown, at = StopStrings(stops), [], 0
    for size in [*cuts, len(text)]:
        shown.append(one.push(text[at : at + size]))
        at += size
    was_stopped = one.stopped
    return [*shown, one.flush()], was_stopped


short = st.text(alphabet="ab🍕\n", max_size=30)
stop = st.text(alphabet="ab🍕\n", min_size=1, max_size=4)


@given(short, stop, st.lists(st.integers(1, 5)))
def test_a_stop_string_cuts_a_stream_where_it_cuts_the_text(text: str, one: str, cuts: list[int]) -> None:
    shown, was_stopped = stopped(text, [one], cuts)
    assert "".join(shown) == text.split(one, maxsplit=1)[0]
    assert was_stopped == (one in text)


@given(short, st.lists(stop, min_size=1, max_size=4))
@pytest.mark.case("I1")
def test_no_part_of_a_stop_string_is_ever_shown(text: str, stops: list[str]) -> None:
    """Character by character: the shortest pieces are the hardest."""
    shown, was_stopped = stopped(text, stops, [1] * len(text))
    joined = "".join(shown)
    assert text.startswith(joined)
    assert not any(one in joined for one in stops)
    if not was_stopped:
        assert joined == text


@pytest.mark.case("I47")
def test_text_held_for_a_stop_string_is_shown_when_the_text_ends() -> None:
    assert stopped("abc", ["cd"], [1, 1, 1])[0] == ["a", "b", "", "", "c"]


def test_without_stop_strings_everything_is_shown_at_once() -> None:
    assert stopped("abc", [], [1, 1, 1])[0] == ["a", "b", "c", "", ""]


MESSAGES = [{"role": "user", "content": "Hi"}]


def test_a_chat_is_written_in_the_models_form(folder: Path) -> None:
    template = load_template(folder)
    assert template is not None
    assert template.render(MESSAGES) == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"


@pytest.mark.case("I15")
def test_after_a_template_error_the_same_chat_gives_the_same_prompt(folder: Path) -> None:
    template = load_template(folder)
    assert template is not None
    before = template.render(MESSAGES)
    with pytest.raises(TemplateError, match="nobody may not speak"):
        template.render([{"role": "nobody", "content": "Hi"}])
    with pytest.raises(TemplateError, match="cannot render"):
        template.render([{"role": "user"}])
    assert template.render(MESSAGES) == before


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ messages.append('more') }}",
        "{{ messages[0].__class__.__init__.__globals__ }}",
    ],
)
def test_a_template_cannot_leave_its_sandbox(source: str) -> None:
    with pytest.raises(TemplateError):
        ChatTemplate(source, {}).render(MESSAGES)


def test_a_template_that_is_none_is_refused_when_the_model_is_loaded() -> None:
    with pytest.raises(ModelError, match="cannot be compiled"):
        ChatTemplate("{% for %}", {})


def test_a_template_may_stand_in_the_tokenizers_config(tmp_path: Path) -> None:
    (tmp_path / "tokenizer_config.json").write_text(
        '{"chat_template": "{{ eos_token }}", "eos_token": {"content": "E"}}'
    )
    template = load_template(tmp_path)
    assert template is not None
    assert template.render(MESSAGES) == "E"


def test_a_model_without_a_template_has_none(tmp_path: Path) -> None:
    assert load_template(tmp_path) is None
