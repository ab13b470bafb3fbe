"""Where a pod keeps the models that it fetched, and whether other pods find them there."""

from enum import StrEnum
from typing import Annotated, Final

from pydantic import StringConstraints, ValidationInfo, model_validator

from backstay_contract.base import Document
from backstay_contract.schema import SecretName, rules

NODE_FOLDER: Final = "/var/lib/backstay/models"
"""Folder of each node that `Node` uses; below it each namespace has its own."""
NODE_ALLOWED: Final = "node_cache"
"""Key of the validation context: False refuses `Node`."""
_UNITS: Final = {"Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
CLAIM_RULE: Final = "cache.claimName: is needed where cache.kind is Claim, and must be left out elsewhere"


class CacheKind(StrEnum):
    """What the volume is."""

    POD = "Pod"
    NODE = "Node"
    CLAIM = "Claim"


Size = Annotated[str, StringConstraints(pattern=r"^[1-9][0-9]{0,5}(Mi|Gi|Ti)$", max_length=8)]


class Cache(Document):
    """Where the pods keep the model. In a shared place each digest is fetched once."""

    model_config = rules(("(self.kind == 'Claim') == has(self.claimName)", CLAIM_RULE))
    kind: CacheKind = CacheKind.POD
    """`Pod`: an emptyDir of each pod's own. `Node`: a folder of the node that all pods of the namespace share; only
    where the operator was installed with `nodeCache.enabled`. `Claim`: a PersistentVolumeClaim."""
    claim_name: SecretName | None = None
    """PersistentVolumeClaim in the resource's own namespace, for `Claim`. Its file system must have flock."""
    size: Size | None = None
    """What all models in it may take together, such as `200Gi`; those that nobody uses go first. Left out: what the
    volume holds."""

    @model_validator(mode="after")
    def _claim_is_named(self) -> "Cache":
        if (self.kind is CacheKind.CLAIM) != (self.claim_name is not None):
            raise ValueError(CLAIM_RULE)
        return self

    @model_validator(mode="after")
    def _node_is_allowed(self, info: ValidationInfo) -> "Cache":
        if self.kind is CacheKind.NODE and (info.context or {}).get(NODE_ALLOWED) is False:
            raise ValueError("kind: Node is refused: the operator was installed without nodeCache.enabled")
        return self

    @property
    def size_bytes(self) -> int | None:
        """The size in bytes."""
        return None if self.size is None else int(self.size[:-2]) * _UNITS[self.size[-2:]]
