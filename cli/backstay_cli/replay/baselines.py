"""What is judged by: a manifest, a ModelDeployment, or baselines alone, each from a file."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml
from backstay_contract import manifest as manifests
from backstay_contract.manifest import ManifestError, describe
from backstay_contract.metric import MetricName
from backstay_contract.names import KIND
from backstay_contract.resource import Baselines, parse_spec
from backstay_contract.rollout import Soak
from pydantic import ValidationError

from backstay_cli.errors import CliError, Exit, refused


@dataclass(frozen=True)
class JudgedBy:
    """Limits in each metric's unit, and what else the files say."""

    limits: dict[MetricName, float] = field(default_factory=dict)
    digest: str | None = None
    soak: Soak | None = None


def read(paths: Iterable[Path]) -> JudgedBy:
    """All files together; a later one overrides an earlier one, metric by metric. Raises CliError."""
    found = JudgedBy()
    for path in paths:
        one = _read(path)
        found = replace(
            found,
            limits={**found.limits, **one.limits},
            digest=one.digest or found.digest,
            soak=one.soak or found.soak,
        )
    return found


def _read(path: Path) -> JudgedBy:
    try:
        data = path.read_bytes()
        return parse(data)
    except OSError as error:
        raise CliError(f"--baselines {path}: {error.strerror}", Exit.NOT_FOUND) from None
    except yaml.YAMLError as error:
        raise refused(f"--baselines {path}: is neither JSON nor YAML: {' '.join(str(error).split())}") from None
    except ValidationError as error:
        raise refused(f"--baselines {path}: {describe(error)}") from None
    except (ManifestError, ValueError) as error:
        raise refused(f"--baselines {path}: {error}") from None


def parse(data: bytes) -> JudgedBy:
    """What a file's bytes say. Raises yaml.YAMLError, ValidationError or ValueError."""
    said = yaml.safe_load(data)
    if not isinstance(said, dict):
        raise ValueError(f"write a manifest, a {KIND}, or baselines: `p99LatencyMs: {{value: 420, tolerance: 2}}`")
    if "files" in said:
        return JudgedBy(manifests.parse(data).limits(), manifests.digest_of(data))
    if said.get("kind") == KIND:
        spec = parse_spec(said.get("spec") or {})
        return JudgedBy(spec.baselines.limits(), spec.model.sha256, spec.rollout.soak)
    return JudgedBy(_baselines(said))


def _baselines(said: dict[str, Any]) -> dict[MetricName, float]:
    given = said.get("baselines", said)
    return Baselines.model_validate(given).limits()
