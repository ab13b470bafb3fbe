"""The spec to go on with while the stored one is not valid: what serves is judged on, and has its way back."""

from backstay_contract.resource import ModelDeploymentSpec
from backstay_contract.rollout import Rollout
from backstay_contract.status import ModelDeploymentStatus, Recipe

from backstay_operator.rollout import history


def stand_in(last_valid: ModelDeploymentSpec | None, status: ModelDeploymentStatus) -> ModelDeploymentSpec | None:
    """The last valid spec that this process saw, else one of the recipe that is tried or serves, with the defaults.

    It is paused: nothing goes forward on a guess. None where not even the status knows what was asked for.
    """
    if last_valid is not None:
        return last_valid.with_(rollout=last_valid.rollout.with_(paused=True))
    recipe = _recipe(status)
    if recipe is None:
        return None
    return ModelDeploymentSpec(
        model=recipe.model,
        hardware_profile=recipe.hardware_profile,
        serving=recipe.serving,
        baselines=recipe.baselines,
        replicas=status.replicas,
        rollout=Rollout(paused=True),
    )


def _recipe(status: ModelDeploymentStatus) -> Recipe | None:
    attempt, active = status.open_attempt, status.active
    if attempt is not None:
        return attempt.recipe
    entry = history.entry(status, active.revision) if active is not None else None
    return entry.recipe if entry is not None else None
