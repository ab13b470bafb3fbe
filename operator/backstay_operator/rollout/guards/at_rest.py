"""Conditions of the transition table while no attempt is open."""

from backstay_contract.evidence import VerdictKind
from backstay_contract.reasons import Reason

from backstay_operator.rollout import watching
from backstay_operator.rollout.facts import Facts


def pin_is_unknown(facts: Facts) -> bool:
    """rollout.rollbackTo names a revision that the history cannot build."""
    return facts.pin_is_unknown


def wanted_serves(facts: Facts) -> bool:
    return facts.wanted_serves


def wanted_is_rejected(facts: Facts) -> bool:
    return facts.rejection is not None


def paused(facts: Facts) -> bool:
    return facts.paused


def rejection_unrecorded(facts: Facts) -> bool:
    """The last flip rejected what it left, and the status does not say so."""
    return facts.left_unrecorded is not None


def soak_unrecorded(facts: Facts) -> bool:
    """The status was lost: what serves is soaked anew."""
    return facts.unjudged


def hold_goes_on(facts: Facts) -> bool:
    """At rest: until the judge passes the revision, a person asks for another one, or the alert is over."""
    active, reason = facts.active, facts.status.reason
    if active is None or facts.something_new_is_asked or facts.wanted.revision != facts.aim.revision:
        return False
    watched = bool(watching.limits(facts.spec, facts.status, active.revision))
    return watched and reason != Reason.ALERT and not facts.verdict_is(VerdictKind.PASS)


def colour_is_busy(facts: Facts) -> bool:
    return facts.free_colour is None


def loser_has_no_traffic(facts: Facts) -> bool:
    """The EndpointSlices of the Service show the active colour only."""
    if facts.active_colour is None:
        return True
    return facts.observation.colours[facts.active_colour.other].endpoints == 0
