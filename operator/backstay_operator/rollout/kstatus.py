"""The two conditions by which tools that know nothing of models (kstatus: Flux, kpt, `kubectl wait`) see how it stands.

Both follow kstatus' convention: they are there, and True, only while they apply, and never together.
"""

from backstay_contract.reasons import Reason
from backstay_contract.status import ModelDeploymentStatus, Phase

from backstay_operator.conditions import Wanted
from backstay_operator.rollout.facts import Facts
from backstay_operator.rollout.plan import After

NEEDS_A_PERSON = (Reason.NO_PREVIOUS, Reason.SHARED_CAUSE, Reason.REVISION_UNKNOWN)
TROUBLED = (Reason.NO_PREVIOUS, Reason.SHARED_CAUSE, Reason.BREACH, Reason.ALERT, Reason.POD_OUTLIER)
"""Reasons of a hold that say something against the revision that serves."""


def conditions(facts: Facts, updated: ModelDeploymentStatus, reason: Reason, after: After) -> list[Wanted]:
    """`Stalled`: what is asked for will not serve unless somebody acts. `Reconciling`: it is on its way."""
    if _stalled(facts, updated, reason, after):
        return [Wanted("Stalled", "True", reason, updated.message)]
    if _reconciling(facts, updated, after):
        return [Wanted("Reconciling", "True", reason, updated.message)]
    return []


def _stalled(facts: Facts, updated: ModelDeploymentStatus, reason: Reason, after: After) -> bool:
    held = updated.phase is Phase.HELD and reason in TROUBLED
    if updated.phase is Phase.FAILED or held or reason in NEEDS_A_PERSON:
        return True
    at_rest = updated.phase is Phase.SERVING and after.attempt is None
    return at_rest and not facts.wanted_serves and facts.rejection is not None


def _reconciling(facts: Facts, updated: ModelDeploymentStatus, after: After) -> bool:
    under_way = after.attempt is not None or updated.phase is Phase.ROLLING_BACK
    return under_way or not facts.wanted_serves or updated.ready_replicas < updated.replicas
