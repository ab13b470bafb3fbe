"""A request's body: read with a limit, parsed strictly, refused with the field's name. Parsing is pure."""

import json
from typing import Any, NoReturn, TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError

from backstay_runtime.api import errors

MAX_BYTES = 4 * 1024 * 1024
"""Several times what the longest context can hold as text or as token ids."""

Model = TypeVar("Model", bound=BaseModel)


async def read(request: Request, model: type[Model]) -> Model:
    """The body as a `model`. Raises ApiError 400 that names the field, or 413."""
    return validate(parse(await request.body()), model)


def parse(data: bytes) -> dict[str, Any]:
    """JSON's object in some bytes. NaN, Infinity and lone surrogates are refused: no JSON parser has to take them."""
    try:
        value = json.loads(data.decode("utf-8"), parse_constant=_no_constant)
    except UnicodeDecodeError as why:
        raise errors.invalid(f"the body is not UTF-8: byte {why.start} is invalid", code="invalid_encoding") from None
    except json.JSONDecodeError as why:
        raise errors.invalid(
            f"the body is not JSON: {why.msg} at line {why.lineno}, column {why.colno}", code="invalid_json"
        ) from None
    except (ValueError, RecursionError) as why:
        said = "it is nested too deeply" if isinstance(why, RecursionError) else str(why)[:200]
        raise errors.invalid(f"the body is not JSON: {said}", code="invalid_json") from None
    if not isinstance(value, dict):
        raise errors.invalid("the body must be a JSON object", code="invalid_json")
    _refuse_surrogates(value)
    return value


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _refuse_surrogates(value: dict[str, Any]) -> None:
    places: list[tuple[str, Any]] = [("", value)]
    while places:
        path, one = places.pop()
        if isinstance(one, str):
            _check_text(path, one)
        elif isinstance(one, list):
            places.extend((f"{path}[{index}]", item) for index, item in enumerate(one) if not isinstance(item, int))
        elif isinstance(one, dict):
            for key, item in one.items():
                _check_text(f"{path}.{key}".lstrip("."), key)
                places.append((f"{path}.{key}".lstrip("."), item))


def _check_text(path: str, text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as why:
        raise errors.invalid(
            f"{path}: character {why.start} is half of a surrogate pair and no text",
            param=path,
            code="invalid_unicode",
        ) from None


def validate(value: dict[str, Any], model: type[Model]) -> Model:
    """The object as a `model`, or ApiError 400 naming the first field that is wrong."""
    try:
        return model.model_validate(value)
    except ValidationError as why:
        first = why.errors(include_url=False)[0]
        param = _param(first["loc"])
        said = first["msg"].removeprefix("Value error, ")
        given = repr(first["input"])
        shown = f" (got {given})" if len(given) <= 80 and first["type"] != "missing" else ""
        raise errors.invalid(said if param is None else f"{param}: {said}{shown}", param=param) from None


def _param(location: tuple[int | str, ...]) -> str | None:
    """`("messages", 0, "content", "str")` -> `messages[0].content`; names of union members are left out."""
    text = ""
    for part in location:
        if isinstance(part, int):
            text += f"[{part}]"
        elif part.isidentifier() and part not in ("str", "int", "float", "bool"):
            text += f".{part}" if text else part
    return text or None
