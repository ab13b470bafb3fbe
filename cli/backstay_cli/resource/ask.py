"""What a person may ask of a rollout: the part of the spec that is changed for it. Pure."""

from typing import Any

from backstay_contract import digest as digests
from backstay_contract.resource import ModelDeploymentSpec
from backstay_contract.rollout import Promotion
from backstay_contract.status import ModelDeploymentStatus, Phase

from backstay_cli.errors import refused


def retry(spec: ModelDeploymentSpec, status: ModelDeploymentStatus, token: str) -> dict[str, Any]:
    """Tries the rejected digest again, with no old evidence. Raises CliError when none was rejected."""
    wanted = digests.normalise(spec.model.sha256)
    if not any(one.digest == wanted for one in status.rejected):
        raise refused(f"spec.model.sha256 {digests.short(wanted)} is not among the rejected digests; nothing to retry")
    return {"rollout": {"retryToken": token}}


def promote(spec: ModelDeploymentSpec, status: ModelDeploymentStatus, attempt: str | None) -> dict[str, Any]:
    """Lets the attempt that waits be flipped to. Raises CliError when none waits, or another than `attempt`."""
    if spec.rollout.promotion is not Promotion.MANUAL:
        raise refused("rollout.promotion is Automatic: the candidate is flipped to without being asked")
    if status.phase is not Phase.AWAITING_PROMOTION or status.attempt is None:
        raise refused(f"no attempt waits for promotion (phase {status.phase})")
    if attempt is not None and attempt != status.attempt.id:
        raise refused(f"--attempt {attempt}: the attempt that waits is {status.attempt.id}")
    return {"rollout": {"promote": status.attempt.id}}
