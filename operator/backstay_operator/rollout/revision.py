"""The revision: a hash of everything that decides how a model behaves, and of nothing else."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from backstay_contract.base import Document
from backstay_contract.resource import Model, ModelDeploymentSpec
from backstay_contract.status import HistoryEntry, Recipe

LENGTH = 12
"""Hex digits of a revision: 48 bits, enough to tell one resource's revisions apart, short enough for a label."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A revision that can be built: from the spec, or from a recipe of the history."""

    revision: str
    recipe: Recipe
    """With the image, always."""

    @property
    def digest(self) -> str:
        return self.recipe.model.sha256

    @property
    def version(self) -> str:
        return self.recipe.model.version

    @property
    def image(self) -> str:
        return self.recipe.serving.image or ""

    def over(self, spec: ModelDeploymentSpec) -> ModelDeploymentSpec:
        """The spec as it would be if it asked for this revision: what a Deployment is rendered from."""
        recipe = self.recipe
        return spec.with_(
            model=recipe.model,
            hardware_profile=recipe.hardware_profile,
            serving=recipe.serving,
            baselines=recipe.baselines,
        )


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


def source_of(model: Model) -> Source:
    """Where the model is fetched."""
    storage = model.storage
    secret = storage.secret_ref.name if storage.secret_ref is not None else None
    return Source(model.uri, storage.endpoint, storage.region, secret)


def revision_of(spec: ModelDeploymentSpec, image: str) -> str:
    """Hash of digest, hardware profile, serving settings and runtime image.

    Replica counts, baselines, rollout settings, labels and annotations are not part of it: changing them is no rollout.
    """
    behaviour = {
        "digest": spec.model.sha256,
        "hardwareProfile": _said(spec.hardware_profile),
        "serving": _said(spec.serving) | {"image": image},
    }
    text = json.dumps(behaviour, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:LENGTH]


def _said(settings: Document) -> dict[str, Any]:
    """What is not as by default. A field that a later version adds, with a default that changes nothing, makes no new
    revision of a spec that does not name it: an upgraded operator restarts no serving pod."""
    return settings.model_dump(mode="json", by_alias=True, exclude_defaults=True)


def of_spec(spec: ModelDeploymentSpec, default_image: str, in_use: Iterable[Known]) -> Wanted:
    """The revision that the spec asks for.

    Where the spec names no image, a revision in use keeps the image it was built with: upgrading the operator, and
    with it the default image, restarts no serving pod.
    """
    image = spec.serving.image
    if image is None:
        kept = (known.image for known in in_use if known.image and revision_of(spec, known.image) == known.revision)
        image = next(kept, default_image)
    return Wanted(revision_of(spec, image), recipe_of(spec, image))


def recipe_of(spec: ModelDeploymentSpec, image: str) -> Recipe:
    """What it takes to build the spec's revision again once the spec has moved on."""
    return Recipe(
        model=spec.model,
        hardware_profile=spec.hardware_profile,
        serving=spec.serving.with_(image=image),
        baselines=spec.baselines,
    )


def of_history(history: Iterable[HistoryEntry], revision: str) -> Wanted | None:
    """A revision that served, as it is built again; None where the history does not know how.

    It keeps the name it served under: a later version may hash the same recipe to another one.
    """
    entry = next((h for h in history if h.revision == revision and h.recipe is not None), None)
    return Wanted(entry.revision, entry.recipe) if entry is not None and entry.recipe is not None else None
