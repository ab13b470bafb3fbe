"""Amounts as Kubernetes writes them (`500m`, `3Gi`, `1e3`), as numbers. Pure: `Quantity` is what the spec lets in."""

import re
from decimal import Decimal

_FORM = re.compile(r"^([+-]?(?:\d+\.?\d*|\.\d+))([eE][+-]?\d{1,2}|[numkKMGTPE]i?|)$")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}


def parse(text: str) -> Decimal:
    """The amount as a number: cores, bytes or pieces. Raises ValueError, naming the text."""
    found = _FORM.match(text)
    if found is None:
        raise ValueError(f"{text!r} is not an amount; write for example 2, 500m or 3Gi")
    number, unit = Decimal(found[1]), found[2]
    if unit in _BINARY:
        return number * Decimal(2) ** _BINARY[unit]
    if unit in _DECIMAL:
        return number.scaleb(_DECIMAL[unit])
    if unit[:1] in ("e", "E"):
        return number.scaleb(int(unit[1:]))
    raise ValueError(f"{text!r}: {unit!r} is no unit of an amount; write for example 2, 500m or 3Gi")


def show(amount: Decimal) -> str:
    """The amount for people to read: in the largest binary unit from Mi on, else with at most three decimals."""
    for unit in ("Ti", "Gi", "Mi"):
        if abs(amount) >= 2 ** _BINARY[unit]:
            return f"{_short(amount / 2 ** _BINARY[unit], 1)}{unit}"
    return _short(amount, 3)


def _short(number: Decimal, places: int) -> str:
    text = f"{number:.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
