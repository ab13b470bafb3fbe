"""Chat messages to a prompt, with the template that travels with the model, in a sandbox."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

from backstay_runtime.model.errors import ModelError


class TemplateError(Exception):
    """The template refuses these messages, or cannot render them."""


class ChatTemplate:
    """A compiled template. It keeps nothing between renderings."""

    def __init__(self, source: str, special: Mapping[str, str]) -> None:
        """`special`: the names (bos_token, …) that the template may use. Raises ModelError for a bad template."""
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
        )
        environment.globals["raise_exception"] = _refuse
        environment.filters["tojson"] = _to_json
        try:
            self._template = environment.from_string(source)
        except jinja2.TemplateError as why:
            raise ModelError(f"the chat template cannot be compiled: {why}") from why
        self._special = dict(special)

    def render(self, messages: Sequence[Mapping[str, Any]], **more: Any) -> str:
        """The prompt, with the beginning of the assistant's answer. Raises TemplateError."""
        try:
            return self._template.render(
                messages=[dict(message) for message in messages], add_generation_prompt=True, **self._special, **more
            )
        except TemplateError:
            raise
        except Exception as why:  # a template can fail in any way that Python can
            raise TemplateError(f"the model's chat template cannot render these messages: {why}") from why


def load_template(folder: Path) -> ChatTemplate | None:
    """The folder's chat template: chat_template.jinja, else the one in tokenizer_config.json, else None."""
    config = _config(folder / "tokenizer_config.json")
    file = folder / "chat_template.jinja"
    source = file.read_text(encoding="utf-8") if file.exists() else config.get("chat_template")
    if not isinstance(source, str):
        return None
    special = {name: _content(config.get(name)) for name in ("bos_token", "eos_token", "pad_token", "unk_token")}
    return ChatTemplate(source, special)


def _config(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    try:
        value = json.loads(path.read_bytes())
    except ValueError as why:
        raise ModelError(f"{path.name} cannot be read: {why}") from why
    return value if isinstance(value, dict) else {}


def _content(token: Any) -> str:
    """A special token is written as a string or as an object that holds one."""
    if isinstance(token, dict):
        token = token.get("content")
    return token if isinstance(token, str) else ""


def _refuse(message: str) -> NoReturn:
    raise TemplateError(str(message))


def _to_json(value: Any, indent: int | None = None) -> str:
    """Without the HTML escapes of Jinja's own filter, as the templates expect."""
    return json.dumps(value, ensure_ascii=False, indent=indent)
