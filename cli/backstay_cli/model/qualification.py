"""What a model was qualified with, as it is written on the command line: hardware, baselines, evaluation set. Pure."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import yaml
from backstay_contract.manifest import EvaluationItem, RecordedBaseline, describe
from backstay_contract.measurement import Measurement
from backstay_contract.metric import KINDS, PERPLEXITY_TOLERANCE, MetricName
from backstay_contract.profile import HardwareProfile
from pydantic import TypeAdapter, ValidationError

from backstay_cli.errors import usage

_ITEM = TypeAdapter(EvaluationItem)
_MEASURED = TypeAdapter(dict[MetricName, RecordedBaseline])


def hardware_profile(text: str) -> HardwareProfile:
    """A profile from `gpu=NAME,count=1,minMemoryGiB=70`, or from YAML or JSON. Raises CliError, naming the field."""
    fields: Any = _pairs("--hardware-profile", text.split(",")) if re.match(r"\w+=", text) else _yaml(text)
    try:
        return HardwareProfile.model_validate(fields)
    except ValidationError as error:
        raise usage(f"--hardware-profile: {describe(error)}") from None


def _yaml(text: str) -> object:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise usage(f"--hardware-profile: is no YAML: {' '.join(str(error).split())}") from None


def baselines(values: Iterable[str], tolerances: Iterable[str]) -> dict[MetricName, RecordedBaseline]:
    """Baselines declared by hand: `METRIC=VALUE` with, for some, `METRIC=TOLERANCE`. Raises CliError.

    They carry no time: the same folder and options always give the same manifest, and so the same digest.
    """
    given = {_metric("--baseline", name): number for name, number in _numbers("--baseline", values).items()}
    factors = {_metric("--tolerance", name): number for name, number in _numbers("--tolerance", tolerances).items()}
    for name in factors.keys() - given.keys():
        raise usage(f"--tolerance {name}: there is no --baseline {name}=VALUE")
    return {name: _baseline(name, value, factors.get(name)) for name, value in given.items()}


def tolerances(pairs: Iterable[str]) -> dict[MetricName, float]:
    """`METRIC=FACTOR` for baselines that are measured. Raises CliError."""
    return {_metric("--tolerance", name): number for name, number in _numbers("--tolerance", pairs).items()}


def measured(text: str, source: str) -> dict[MetricName, RecordedBaseline]:
    """What `backstay bench --out` wrote. Raises CliError, naming the field."""
    try:
        return _MEASURED.validate_json(text)
    except ValidationError as error:
        raise usage(f"--measured {source}: {describe(error)}") from None


def _baseline(name: MetricName, value: float, tolerance: float | None) -> RecordedBaseline:
    fields: dict[str, Any] = {
        "value": value,
        "unit": KINDS[name].unit,
        "measured": Measurement(method="declared"),
    }
    if tolerance is None and name is MetricName.PERPLEXITY:
        tolerance = PERPLEXITY_TOLERANCE
    if tolerance is not None:
        fields["tolerance"] = tolerance
    try:
        return RecordedBaseline.model_validate(fields)
    except ValidationError as error:
        raise usage(f"--baseline {name}: {describe(error)}") from None


def evaluation(lines: Iterable[str], source: str) -> tuple[EvaluationItem, ...]:
    """An evaluation set: a JSON object a line with text, nll and tokens. Raises CliError, naming the line."""
    items = []
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                items.append(_ITEM.validate_json(line))
            except ValidationError as error:
                raise usage(f"--eval {source}, line {number}: {describe(error)}") from None
    if not items:
        raise usage(f"--eval {source}: has no items; write a JSON object a line with text, nll and tokens")
    return tuple(items)


def _metric(option: str, name: str) -> MetricName:
    try:
        return MetricName(name)
    except ValueError:
        raise usage(f"{option} {name}: is no metric; known: {', '.join(MetricName)}") from None


def _numbers(option: str, pairs: Iterable[str]) -> dict[str, float]:
    numbers = {}
    for name, text in _pairs(option, pairs).items():
        try:
            numbers[name] = float(text)
        except ValueError:
            raise usage(f"{option} {name}={text}: is no number") from None
    return numbers


def _pairs(option: str, pairs: Iterable[str]) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip() or not value.strip():
            raise usage(f"{option} {pair!r}: write NAME=VALUE")
        if name.strip() in found:
            raise usage(f"{option} {name.strip()}: is given twice")
        found[name.strip()] = value.strip()
    return found
