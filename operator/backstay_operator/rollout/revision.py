"""The revision: a hash of everything that decides how a model behaves, and of nothing else."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from backstay_contract.resource import ModelDeploymentSpec

LENGTH = 12
"""Hex digits of a revision: 48 bits, enough to tell one resource's revisions apart, short enough for a label."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The revision that the spec asks for."""

    revision: str
    digest: str
    version: str
    image: str


class Known(NamedTuple):
    """A revision that is already in use, and the image it was built with."""

    revision: str
    image: str


class Source(NamedTuple):
    """Where a model is fetched. Not part of the revision: the digest says which bytes come, wherever they come from."""

    uri: str
    endpoint: str
    region: str
    secret: str | None


def source_of(spec: ModelDeploymentSpec) -> Source:
    """The source that the spec names."""
    storage = spec.model.storage
    secret = storage.secret_ref.name if storage.secret_ref is not None else None
    return Source(spec.model.uri, storage.endpoint, storage.region, secret)


def revision_of(spec: ModelDeploymentSpec, image: str) -> str:
    """Hash of digest, hardware profile, serving settings and runtime image.

    Replica counts, baselines, rollout settings, labels and annotations are not part of it: changing them is no rollout.
    """
    behaviour = {
        "digest": spec.model.sha256,
        "hardwareProfile": spec.hardware_profile.to_json(),
        "serving": spec.serving.to_json() | {"image": image},
    }
    text = json.dumps(behaviour, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:LENGTH]


def wanted(spec: ModelDeploymentSpec, default_image: str, in_use: Iterable[Known]) -> Wanted:
    """The revision that the spec asks for.

    Where the spec names no image, a revision in use keeps the image it was built with: upgrading the operator, and
    with it the default image, restarts no serving pod.
    """
    image = spec.serving.image
    if image is None:
        kept = (known.image for known in in_use if known.image and revision_of(spec, known.image) == known.revision)
        image = next(kept, default_image)
    return Wanted(revision_of(spec, image), spec.model.sha256, spec.model.version, image)
