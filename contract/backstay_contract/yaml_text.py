"""YAML for generated files: block style, strings quoted where YAML would read something else. Standard library only."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence

Value = Mapping[str, "Value"] | Sequence["Value"] | str | int | float | bool | None

# Words that can neither be read as a number, date, boolean or null nor begin or end a YAML construct.
_PLAIN = re.compile(r"([A-Za-z/]|\.[A-Za-z])[A-Za-z0-9_/.$()<=-]*([ ,'`]+[A-Za-z0-9_/.$()<=-]+)*[.`']?")
_NOT_STRINGS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null", ".inf", ".nan"})


def dump(value: Value) -> str:
    """One YAML document for a value of JSON's types, in the order of its keys, ending in a newline."""
    if _is_block(value):
        return "\n".join(_block(value)) + "\n"
    return _scalar(value) + "\n"


def _is_block(value: Value) -> bool:
    return isinstance(value, Mapping | Sequence) and not isinstance(value, str) and len(value) > 0


def _block(value: Value) -> Iterator[str]:
    """The lines of a mapping or sequence that is not empty, without outer indentation."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _entry(f"{_scalar(key)}:", item)
    elif isinstance(value, Sequence):
        for item in value:
            yield from _item(item)


def _entry(head: str, item: Value) -> Iterator[str]:
    if _is_block(item):
        yield head
        indent = "  " if isinstance(item, Mapping) else ""
        yield from (indent + line for line in _block(item))
    else:
        yield f"{head} {_scalar(item)}"


def _item(item: Value) -> Iterator[str]:
    if _is_block(item):
        for number, line in enumerate(_block(item)):
            yield ("- " if number == 0 else "  ") + line
    else:
        yield f"- {_scalar(item)}"


def _scalar(value: Value) -> str:
    """A scalar or an empty collection: JSON's spelling is YAML's too, but plain words read better without quotes."""
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _NOT_STRINGS:
        return value
    if isinstance(value, float):
        # Without a point YAML reads a number with an exponent as text.
        return re.sub(r"^(-?\d+)e", r"\1.0e", json.dumps(value))
    return "".join(map(_escaped, json.dumps(value, ensure_ascii=False)))


def _escaped(character: str) -> str:
    """JSON escapes what lies beyond 16 bits as two halves, which YAML does not know."""
    if character.isprintable():
        return character
    return f"\\u{ord(character):04x}" if ord(character) < 0x10000 else f"\\U{ord(character):08x}"
