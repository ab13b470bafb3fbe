"""A folder's manifest."""

from pathlib import Path
from typing import NamedTuple

from backstay_contract import manifest as manifests
from backstay_contract.manifest import EvaluationItem, Manifest, RecordedBaseline
from backstay_contract.metric import MetricName
from backstay_contract.profile import HardwareProfile
from pydantic import ValidationError

from backstay_cli.errors import refused
from backstay_cli.model.architecture import read_architecture
from backstay_cli.model.files import listing, refusals
from backstay_cli.model.hashing import Advance, hash_files


class Description(NamedTuple):
    """A model's manifest, the exact bytes of manifest.json, and the digest that names the model."""

    manifest: Manifest
    data: bytes
    digest: str


class Qualification(NamedTuple):
    """What the model was qualified with."""

    hardware_profile: HardwareProfile = HardwareProfile()
    baselines: dict[MetricName, RecordedBaseline] = {}
    evaluation: tuple[EvaluationItem, ...] = ()


def checked_listing(folder: Path, exclude: tuple[str, ...]) -> tuple[str, ...]:
    """The paths of a model's files. Raises CliError naming every file that cannot be part of a model."""
    found = listing(folder, exclude)
    said = refusals(folder, found.kept)
    if said:
        raise refused(f"{folder} cannot be pushed (--exclude GLOB leaves files out):\n  " + "\n  ".join(said))
    return found.kept


def describe(
    folder: Path, paths: tuple[str, ...], name: str, version: str, qualification: Qualification, advance: Advance
) -> Description:
    """The manifest of a folder's files; `advance` is told the bytes that were hashed. Raises CliError."""
    architecture = read_architecture(folder, paths)
    files = hash_files(folder, paths, advance)
    try:
        manifest = Manifest(
            name=name,
            version=version,
            files=files,
            architecture=architecture,
            hardware_profile=qualification.hardware_profile,
            baselines=qualification.baselines,
            evaluation=qualification.evaluation,
        )
    except ValidationError as error:
        raise refused(manifests.describe(error)) from None
    data = manifests.dump(manifest)
    if len(data) > manifests.MAX_BYTES:
        raise refused(f"manifest.json would have {len(data)} bytes, more than {manifests.MAX_BYTES}; shorten --eval")
    return Description(manifest, data, manifests.digest_of(data))
