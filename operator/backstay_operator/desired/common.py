"""What all children have in common: who owns them and how they are labelled."""

from dataclasses import dataclass
from typing import Any

from backstay_contract import names
from backstay_contract.names import Label
from backstay_contract.status import Colour

Json = dict[str, Any]

FLIP = f"{names.GROUP}/flip"
"""Annotation on the Service NAME: the last flip (see flip_record)."""
ATTEMPT_LABEL = names.Annotation.ATTEMPT
"""The attempt is a label of the pods, too: it can then be selected by."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The resource that children belong to."""

    namespace: str
    name: str
    uid: str

    def reference(self) -> Json:
        """The ownerReference. Without blockOwnerDeletion, which would need rights on finalizers."""
        return {
            "apiVersion": names.API_VERSION,
            "kind": names.KIND,
            "name": self.name,
            "uid": self.uid,
            "controller": True,
        }

    def labels(self) -> dict[str, str]:
        """Labels by which all children of the resource are found."""
        return {
            Label.NAME: "backstay-model",
            Label.INSTANCE: self.name,
            Label.MANAGED_BY: names.MANAGED_BY,
            Label.RESOURCE: self.name,
        }


def child(owner: Owner, name: str, *, labels: dict[str, str], annotations: dict[str, str] | None = None) -> Json:
    """The metadata of a child."""
    body: Json = {
        "name": name,
        "namespace": owner.namespace,
        "labels": owner.labels() | labels,
        "ownerReferences": [owner.reference()],
    }
    if annotations:
        body["annotations"] = annotations
    return body


def pod_selector(owner: Owner, colour: Colour | str) -> dict[str, str]:
    """Labels that only the pods of this colour have; with `none` they are nobody's."""
    return {Label.RESOURCE: owner.name, Label.COLOUR: str(colour)}


def pods_selector(owner: Owner) -> dict[str, str]:
    """Labels that the pods of both colours have, and no other pod."""
    return {Label.RESOURCE: owner.name, Label.MANAGED_BY: names.MANAGED_BY}
